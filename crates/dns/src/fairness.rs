//! How much one of many who ask may take, so that nothing is left over only for the loudest. Pure: the time is given.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How much of what is free one may have taken: the eighth part. Whoever takes as much as he can leaves room for others,
/// however many do so (the dynamic thresholds of switches with shared buffers).
const PART: usize = 8;

/// Places that many share, each for a while.
#[derive(Debug)]
pub(crate) struct Places {
    all: usize,
    taken: usize,
    by: HashMap<IpAddr, usize>,
}

impl Places {
    pub(crate) fn new(all: usize) -> Places {
        Places { all, taken: 0, by: HashMap::new() }
    }

    /// Takes one, if that is fair.
    pub(crate) fn take(&mut self, who: IpAddr) -> bool {
        let free = self.all - self.taken;
        let share = (free / PART).max(1);
        let held = self.by.get(&who).copied().unwrap_or(0);
        if free == 0 || held >= share {
            return false;
        }
        self.taken += 1;
        self.by.insert(who, held + 1);
        true
    }

    /// Gives one back.
    pub(crate) fn give_back(&mut self, who: IpAddr) {
        let Some(held) = self.by.get_mut(&who) else { return };
        *held -= 1;
        self.taken -= 1;
        if *held == 0 {
            self.by.remove(&who);
        }
    }
}

/// Those whose questions are counted are forgotten when there are more of them, as far as they were quiet.
const MAX_COUNTED: usize = 8192;

/// How many questions each may ask a second.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: f64,
    by: HashMap<IpAddr, Allowance>,
}

#[derive(Debug)]
struct Allowance {
    left: f64,
    at: Instant,
}

impl Pace {
    pub(crate) fn new(per_second: u32) -> Pace {
        Pace { per_second: per_second.into(), by: HashMap::new() }
    }

    /// Whether one more is within what `who` may ask. After a quiet second it is as much as a second's at once.
    pub(crate) fn allows(&mut self, who: IpAddr, now: Instant) -> bool {
        if self.by.len() >= MAX_COUNTED && !self.by.contains_key(&who) {
            self.by.retain(|_, each| now.saturating_duration_since(each.at) < Duration::from_secs(1));
            if self.by.len() >= MAX_COUNTED {
                return false;
            }
        }
        let full = self.per_second;
        let allowance = self.by.entry(who).or_insert(Allowance { left: full, at: now });
        let gained = now.saturating_duration_since(allowance.at).as_secs_f64() * full;
        allowance.left = (allowance.left + gained).min(full);
        allowance.at = now;
        if allowance.left < 1.0 {
            return false;
        }
        allowance.left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn who(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    fn take_all(places: &mut Places, number: u32) -> usize {
        (0..).take_while(|_| places.take(who(number))).count()
    }

    #[test]
    fn whoever_takes_all_that_he_can_leaves_room_for_others() {
        let mut places = Places::new(512);
        assert_eq!(take_all(&mut places, 0), 57);
        let more: Vec<usize> = (1..40).map(|number| take_all(&mut places, number)).collect();
        assert!(more.iter().all(|taken| *taken >= 1), "{more:?}");
        assert!(more[0] > 40, "{more:?}");
        assert!(places.take(who(999)), "there is always one left for somebody new");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut places = Places::new(16);
        let taken = take_all(&mut places, 1);
        assert!(taken >= 1);
        for _ in 0..taken {
            places.give_back(who(1));
        }
        places.give_back(who(1));
        assert_eq!(take_all(&mut places, 1), taken);
    }

    #[test]
    fn when_all_places_are_taken_nobody_gets_one() {
        let mut places = Places::new(4);
        assert_eq!((0..10).filter(|number| places.take(who(*number))).count(), 4);
    }

    #[test]
    fn one_who_floods_is_slowed_down_and_another_is_not() {
        let mut pace = Pace::new(100);
        let now = Instant::now();
        assert_eq!((0..1000).filter(|_| pace.allows(who(1), now)).count(), 100);
        assert!(pace.allows(who(2), now));
        let later = now + Duration::from_millis(100);
        assert_eq!((0..1000).filter(|_| pace.allows(who(1), later)).count(), 10);
        let much_later = now + Duration::from_secs(60);
        assert_eq!((0..1000).filter(|_| pace.allows(who(1), much_later)).count(), 100);
    }

    #[test]
    fn those_who_were_quiet_are_forgotten_first() {
        let mut pace = Pace::new(100);
        let now = Instant::now();
        for number in 0..8192 {
            assert!(pace.allows(who(number), now));
        }
        assert!(!pace.allows(who(9000), now), "no memory without bound");
        assert!(pace.allows(who(9000), now + Duration::from_secs(2)));
        assert_eq!(pace.by.len(), 1);
    }
}
