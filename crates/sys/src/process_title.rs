//! What a process is called in `/proc/PID/cmdline`.

use std::io;

/// Replaces the arguments that this process was started with, as others see them, by a title; cut to the room that they took.
///
/// # Errors
///
/// When the process cannot read about itself, or was started without any argument.
#[allow(unsafe_code)]
pub fn set_process_title(title: &str) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in brackets may hold anything; what follows it begins with the third field.
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or_else(invalid)?.1.split_whitespace().collect();
    let address = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<usize>().ok());
    let (Some(start), Some(end)) = (address(48), address(49)) else { return Err(invalid()) };
    let room = end.checked_sub(start).filter(|room| start != 0 && *room > 1).ok_or_else(invalid)?;
    let kept = title.len().min(room - 1);
    // SAFETY: the kernel says that the arguments of this process lie there; they are on its stack, which is writable, and stay
    // ended by a zero. Nothing in this workspace reads arguments after the start.
    // JUSTIFICATION: changing the limits instead (PR_SET_MM) needs a capability that not every machine gives.
    unsafe {
        std::ptr::write_bytes(start as *mut u8, 0, room);
        std::ptr::copy_nonoverlapping(title.as_ptr(), start as *mut u8, kept);
    }
    Ok(())
}
