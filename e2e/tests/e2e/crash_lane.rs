//! A node that is killed again and again, and a pod whose life has everything: an init container, a sidecar, a container
//! with all four hooks and a liveness probe. The pod writes down what happens to it, in a directory of the machine.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{PATIENCE, Place, finish};
use serde_json::{Value, json};

use super::kill_points::Again;

/// What went wrong, in words.
pub(crate) type Outcome = Result<(), String>;

/// The condition, or what went wrong.
pub(crate) fn ensure(condition: bool, problem: impl FnOnce() -> String) -> Outcome {
    if condition { Ok(()) } else { Err(problem()) }
}

/// The part of a pod's life in which the daemon is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// From its creation until all its containers run.
    Start,
    /// Its main container is unhealthy, and restarted.
    Restart,
    /// Its main container fails again and again.
    BackOff,
    /// It is deleted.
    End,
}

/// One kill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) stage: Stage,
    pub(crate) point: &'static str,
    /// At which visit of the point since the stage began.
    pub(crate) visit: u32,
    pub(crate) again: Again,
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {} {}", self.stage, self.point, self.visit)
    }
}

/// The first process of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) role: String,
    pid: u32,
    /// When it began, as the kernel counts it.
    began: String,
}

/// A pod, and the directory that it writes to.
pub(crate) struct CasePod {
    name: String,
    /// In the environment of all its processes.
    mark: String,
    out: PathBuf,
    pub(crate) manifest: Value,
}

impl CasePod {
    /// First processes of its containers that run.
    pub(crate) fn processes(&self) -> BTreeSet<Process> {
        let mut found = BTreeSet::new();
        for (pid, role) in self.all_processes() {
            let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let status = read("status");
            let inner = status.lines().find(|line| line.starts_with("NSpid:"));
            let first =
                inner.is_some_and(|line| line.split_whitespace().count() > 2 && line.ends_with("\t1"));
            let stat = read("stat");
            let began =
                stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).map(str::to_owned);
            if let (true, Some(began)) = (first, began) {
                found.insert(Process { role, pid, began });
            }
        }
        found
    }

    fn running_roles(&self) -> BTreeSet<String> {
        self.processes().into_iter().map(|process| process.role).collect()
    }

    /// All processes of the pod, with the container that they are of.
    fn all_processes(&self) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment);
            if environment.split('\0').any(|variable| variable == format!("CASE={}", self.mark)) {
                let role = environment.split('\0').find_map(|variable| variable.strip_prefix("ROLE="));
                found.push((pid, role.unwrap_or_default().to_owned()));
            }
        }
        found
    }

    /// From now on its liveness probe fails, until the container begins again.
    pub(crate) fn fall_ill(&self) {
        fs::write(self.out.join("ill"), "").expect("written");
    }

    /// The lines with that word in one of the files that the pod wrote.
    pub(crate) fn lines(&self, name: &str, word: &str) -> Vec<String> {
        let text = fs::read_to_string(self.out.join(name)).unwrap_or_default();
        text.lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
    }

    /// Init container and sidecar began once, the main container so many times.
    pub(crate) fn check_starts(&self, main: usize) -> Outcome {
        for (role, expected) in [("init", 1), ("side", 1), ("main", main)] {
            let found = self.lines("born", role);
            ensure(found.len() == expected, || format!("{role} was to begin {expected} times: {found:?}"))?;
        }
        Ok(())
    }

    /// Each hook was delivered; a second time at most the one that the kill met, which is then told so.
    pub(crate) fn check_hooks(&self, case: &Case) -> Outcome {
        let restarts = usize::from(case.stage == Stage::Restart);
        let mut extra = 0;
        let all = self.lines("hooks", "");
        let words = || format!("{all:?}");
        for (hook, expected) in [
            ("preStart", 1 + restarts),
            ("postStart", 1 + restarts),
            ("postRestart", restarts),
            ("preStop", 1 + restarts),
        ] {
            let found = match hook {
                "preStart" => self.lines("requests", "url:/pre").len(),
                _ => self.lines("hooks", &format!("{hook} ")).len(),
            };
            ensure(found >= expected, || format!("{hook} came {found} times, not {expected}: {}", words()))?;
            extra += found - expected;
        }
        ensure(!self.lines("hooks", "Delete").is_empty(), || {
            format!("no preStop for the deletion: {}", words())
        })?;
        ensure(restarts == 0 || !self.lines("hooks", "Health").is_empty(), || {
            format!("no preStop for the health: {}", words())
        })?;
        let second = self.lines("hooks", " 2").len();
        let later = all.iter().filter(|line| !line.contains(" 1") && !line.contains(" 2")).count();
        ensure(later == 0 && extra <= 1 && second <= 1, || format!("too many deliveries: {}", words()))?;
        // What preStart is told of its attempts stands in its log only.
        let is_pre_start = matches!((case.stage, case.visit), (Stage::Start, 1) | (Stage::Restart, 2));
        match case.again {
            Again::Never => ensure(extra == 0 && second == 0, || format!("a hook came again: {}", words())),
            Again::Once if is_pre_start => Ok(()),
            Again::Once => ensure(second == 1, || format!("nothing says attempt 2: {}", words())),
            Again::Maybe => Ok(()),
        }
    }
}

/// A node with its place, that is killed and started again on the same port.
pub(crate) struct Lane {
    place: Place,
    out: PathBuf,
    fault: PathBuf,
    /// The same for the shims.
    shim_fault: PathBuf,
    log: PathBuf,
    port: u16,
    daemon: Option<Child>,
    proxy: Option<(Child, u16)>,
    /// What the kernel calls things of this node, once a pod has shown it: control group and beginning of interfaces.
    names: Option<(String, String)>,
}

impl Lane {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        let out = place.data().parent().expect("a parent").join("out");
        fs::create_dir(&out).expect("made");
        let (fault, log) = (place.file("fault", ""), place.file("node.log", ""));
        let shim_fault = place.file("shim_fault", "");
        let free =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let port = free.port();
        let mut lane =
            Self { place, out, fault, shim_fault, log, port, daemon: None, proxy: None, names: None };
        lane.up();
        // One client for all lives of the node: it is much quicker than a kubectl for each question.
        let mut proxy = Command::new("kubectl")
            .args(["proxy", "--port=0", "--kubeconfig"])
            .arg(lane.place.data().join("kubeconfig"))
            .env("HOME", lane.place.data())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl is there");
        let mut line = String::new();
        BufReader::new(proxy.stdout.take().expect("a pipe")).read_line(&mut line).expect("readable");
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        lane.proxy = Some((proxy, port.unwrap_or_else(|| panic!("kubectl proxy says {line:?}"))));
        lane
    }

    /// Starts the daemon and waits until it is ready.
    pub(crate) fn up(&mut self) {
        let line = self.start();
        assert!(
            line.starts_with("export KUBECONFIG="),
            "the node did not become ready\n{}",
            self.last_of_log()
        );
    }

    /// Starts the daemon, and answers what it says when it is ready; nothing if it ends before.
    pub(crate) fn start(&mut self) -> String {
        let log = fs::OpenOptions::new().append(true).open(&self.log).expect("the log is there");
        let mut child = self
            .place
            .coracle(&["up", "--allow-host-image", "--listen"])
            .arg(format!("127.0.0.1:{}", self.port))
            .arg("--data-dir")
            .arg(self.place.data())
            .env("CORACLE_FAULT", &self.fault)
            .env("CORACLE_SHIM_FAULT", &self.shim_fault)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the node starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("readable");
        self.daemon = Some(child);
        line
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.place.data()
    }

    /// What `coracle image` with these arguments prints about this node's store.
    pub(crate) fn image(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.place.coracle(&["image"]);
        let said = finish(command.args(arguments).arg("--data-dir").arg(self.place.data()), "");
        if said.status == 0 { Ok(said.stdout) } else { Err(said.all()) }
    }

    /// Ends the daemon at once.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("it runs");
        daemon.kill().and_then(|()| daemon.wait()).expect("a child");
    }

    pub(crate) fn arm(&self, case: &Case) {
        self.arm_lines(&format!("kill {} {}\n", case.point, case.visit));
    }

    /// Writes the file of the crate `fault`.
    pub(crate) fn arm_lines(&self, lines: &str) {
        write_whole(&self.fault, lines);
    }

    /// Writes that of the shims.
    pub(crate) fn arm_shims(&self, lines: &str) {
        write_whole(&self.shim_fault, lines);
    }

    /// Waits until a shim has come to the point that is armed, and has ended there.
    pub(crate) fn wait_for_shim_death(&self) -> Outcome {
        self.wait("no shim came to the point", || {
            let armed = fs::read_to_string(&self.shim_fault).unwrap_or_default();
            ensure(armed.is_empty(), || armed)
        })
    }

    /// The shims of this node that run.
    pub(crate) fn shims(&self) -> BTreeSet<u32> {
        let mark = format!("{}/runtime/sandboxes/", self.place.data().display());
        let lines = e2e::left_behind(&mark).into_iter();
        let found: BTreeSet<u32> =
            lines.filter_map(|line| line.strip_prefix("process ")?.split(':').next()?.parse().ok()).collect();
        // A child that it forked looks like it until it executes its program.
        let parent = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
            line.and_then(|parent| parent.trim().parse::<u32>().ok())
        };
        found.iter().copied().filter(|pid| parent(pid).is_some_and(|it| !found.contains(&it))).collect()
    }

    /// What has not acted yet.
    pub(crate) fn armed(&self) -> String {
        fs::read_to_string(&self.fault).unwrap_or_default()
    }

    pub(crate) fn wait_for_death(&mut self) -> Outcome {
        let mut daemon = self.daemon.take().expect("it runs");
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = daemon.try_wait().expect("a child") {
                return ensure(status.signal() == Some(9), || format!("the node ended by itself: {status}"));
            }
            if Instant::now() > deadline {
                let armed = self.armed();
                self.daemon = Some(daemon);
                return Err(format!("the node never came to the point: {armed}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The pod with everything, or one that fails.
    pub(crate) fn new_pod(&self, name: &str, stage: Stage) -> CasePod {
        let out = self.out.join(name);
        fs::create_dir(&out).expect("made");
        let mark = out.display().to_string();
        let container = |role: &str, script: String| {
            json!({
                "name": role, "image": "coracle.dev/host", "command": ["/bin/sh", "-c", script],
                "env": [{"name": "CASE", "value": mark}, {"name": "ROLE", "value": role}],
                "volumeMounts": [{"name": "out", "mountPath": "/out"}, {"name": "scratch", "mountPath": "/scratch"}],
            })
        };
        let born = |role: &str| format!("echo {role} >> /out/born");
        let stay = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done";
        let exec = |script: &str| json!({"exec": {"command": ["/bin/sh", "-c", script]}});
        let mut main = container("main", format!("rm -f /out/ill; {}; {stay}", born("main")));
        let mut annotations = json!({});
        if stage == Stage::BackOff {
            main["command"][2] = json!(format!("{}; exit 1", born("main")));
        } else {
            main["lifecycle"] = json!({
                "postStart": exec("echo postStart $HOOK_ATTEMPT >> /out/hooks"),
                "preStop": exec("echo preStop $HOOK_ATTEMPT $HOOK_REASON >> /out/hooks"),
            });
            main["livenessProbe"] = exec("! test -e /out/ill");
            main["livenessProbe"]["periodSeconds"] = json!(1);
            main["livenessProbe"]["failureThreshold"] = json!(1);
            let handlers = json!({"main": {
                "preStart": {"httpGet": {"host": "127.0.0.1", "port": 8080, "path": "/pre"}},
                "postRestart": exec("echo postRestart $HOOK_ATTEMPT >> /out/hooks"),
            }});
            annotations = json!({"hooks.coracle.dev/handlers": handlers.to_string()});
        }
        let serve = "touch /scratch/ok; busybox httpd -f -vv -p 8080 -h /scratch 2>> /out/requests & \
                     until busybox wget -q -O /dev/null http://127.0.0.1:8080/ok; do sleep 0.02; done; touch /scratch/serving";
        // A second sandbox finds the volume as the first one left it.
        let anew = "rm -f /scratch/serving /scratch/ok";
        let mut side = container("side", format!("{anew}; {}; {serve}; {stay}", born("side")));
        side["restartPolicy"] = json!("Always");
        side["startupProbe"] = exec("until [ -e /scratch/serving ]; do sleep 0.02; done");
        side["startupProbe"]["periodSeconds"] = json!(1);
        side["startupProbe"]["timeoutSeconds"] = json!(60);
        let manifest = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "terminationGracePeriodSeconds": 4,
                "volumes": [
                    {"name": "out", "hostPath": {"path": out, "type": "Directory"}},
                    {"name": "scratch", "emptyDir": {"medium": "Memory"}},
                ],
                "initContainers": [container("init", born("init")), side],
                "containers": [main],
            },
        });
        CasePod { name: name.to_owned(), mark: out.display().to_string(), out, manifest }
    }

    /// A pod to which nothing happens unless somebody does it: no probe, no hook.
    pub(crate) fn new_bystander(&self, name: &str) -> CasePod {
        let mut pod = self.new_pod(name, Stage::Start);
        let spec = &mut pod.manifest["spec"];
        spec["containers"][0]["lifecycle"].take();
        spec["containers"][0]["livenessProbe"].take();
        spec["initContainers"][1]["startupProbe"].take();
        pod.manifest["metadata"]["annotations"].take();
        pod
    }

    /// Asks the API; `None` when nobody answers.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let (_, port) = self.proxy.as_ref()?;
        let mut stream = TcpStream::connect(("127.0.0.1", *port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let kind =
            if method == "PATCH" { "application/strategic-merge-patch+json" } else { "application/json" };
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()?;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
    }

    fn path(pod: &CasePod) -> String {
        format!("/api/v1/namespaces/default/pods/{}", pod.name)
    }

    /// Creates the pod; the answer may be cut off by the end of the node.
    pub(crate) fn create(&self, pod: &CasePod) {
        let answer = self.ask("POST", "/api/v1/namespaces/default/pods", &pod.manifest.to_string());
        if let Some((status, body)) = answer {
            // The proxy says 500 or 502 when the node ends before it has answered.
            assert!(matches!(status, 201 | 500 | 502), "{status}: {body}");
        }
    }

    /// Deletes the pod with its own grace; the answer may be cut off.
    pub(crate) fn delete(&self, pod: &CasePod) {
        self.ask("DELETE", &Self::path(pod), "");
    }

    /// The pod, if there is one.
    pub(crate) fn get(&self, pod: &CasePod) -> Option<Value> {
        let (status, body) = self.ask("GET", &Self::path(pod), "")?;
        (status == 200).then(|| serde_json::from_str(&body).expect("a pod is JSON"))
    }

    pub(crate) fn has_event(&self, pod: &CasePod, reason: &str) -> bool {
        let path = format!(
            "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{}%2Creason%3D{reason}",
            pod.name
        );
        self.ask("GET", &path, "").is_some_and(|(_, body)| body.contains(reason))
    }

    pub(crate) fn wait(&self, what: &str, seen: impl Fn() -> Outcome) -> Outcome {
        let deadline = Instant::now() + Duration::from_secs(40);
        loop {
            let Err(problem) = seen() else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(format!("{what}: {problem}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the status says what is true: all containers run, the main one after so many restarts.
    pub(crate) fn wait_until_steady(&mut self, pod: &CasePod, restarts: u64) -> Outcome {
        self.wait("the pod did not become ready", || {
            let object = self.get(pod).ok_or("the API does not have it")?;
            let status = &object["status"];
            let main = &status["containerStatuses"][0];
            let side = &status["initContainerStatuses"][1];
            let ready = status["conditions"].as_array().is_some_and(|conditions| {
                conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
            });
            let counts = main["restartCount"] == restarts && side["restartCount"] == 0;
            ensure(status["phase"] == "Running" && ready && counts, || status.to_string())
        })?;
        let roles: Vec<String> = pod.processes().into_iter().map(|process| process.role).collect();
        ensure(roles == ["main", "side"], || format!("these run: {roles:?}"))?;
        if self.names.is_none() {
            self.names = kernel_names(pod);
        }
        Ok(())
    }

    /// Waits until the status says which containers run: within five seconds after the daemon was `ready` again, by a clock
    /// that nobody sets. On a machine on which more processes want to run than there are processors (the average of the last
    /// minute), it may take as many times longer as each of them has to wait.
    pub(crate) fn wait_for_truth(&self, pod: &CasePod, ready: Instant) -> Outcome {
        let limit = Duration::from_secs(5).mul_f64(waiting_processes());
        loop {
            let before = pod.running_roles();
            let told = self.get(pod).map(|object| {
                let status = &object["status"];
                let all = ["initContainerStatuses", "containerStatuses"].map(|list| status[list].as_array());
                let running =
                    all.into_iter().flatten().flatten().filter(|one| one["state"]["running"].is_object());
                running.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect::<BTreeSet<_>>()
            });
            let now = pod.running_roles();
            // What changed while it was asked says nothing.
            if before == now && told.clone().unwrap_or_default() == now {
                return Ok(());
            }
            let took = ready.elapsed();
            ensure(took <= limit, || {
                format!("after {took:?} (at most {limit:?}) {now:?} run, and the status says {told:?}")
            })?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the status says that the main container failed twice and waits.
    pub(crate) fn wait_until_backing_off(&self, pod: &CasePod) -> Outcome {
        self.wait("the pod does not back off", || {
            let object = self.get(pod).ok_or("the API does not have it")?;
            let main = &object["status"]["containerStatuses"][0];
            let waits = main["state"]["waiting"]["reason"] == "CrashLoopBackOff";
            let starts = pod.lines("born", "main").len();
            ensure(waits && starts as u64 == main["restartCount"].as_u64().unwrap_or(0) + 1, || {
                format!("{starts} starts, {main}")
            })
        })
    }

    pub(crate) fn wait_until_gone(&self, pod: &CasePod) -> Outcome {
        self.wait("the pod is still there", || match self.ask("GET", &Self::path(pod), "") {
            Some((404, _)) => Ok(()),
            other => Err(other.map(|(_, body)| body).unwrap_or_default()),
        })
    }

    /// Waits until the machine has nothing of the pod any more.
    pub(crate) fn wait_until_nothing_is_left(&self, pod: &CasePod) -> Outcome {
        self.wait("left behind", || {
            let left = self.left(pod);
            ensure(left.is_empty(), || format!("{left:#?}"))
        })?;
        fs::remove_dir_all(&pod.out).map_err(|error| error.to_string())
    }

    fn left(&self, pod: &CasePod) -> Vec<String> {
        let data = self.place.data();
        let mut left: Vec<String> =
            pod.all_processes().iter().map(|process| format!("process {process:?}")).collect();
        let own = self.daemon.as_ref().map(Child::id);
        let mark = data.display().to_string();
        left.extend(e2e::left_behind(&mark).into_iter().filter(|line| {
            !own.is_some_and(|pid| line.starts_with(&format!("process {pid}:"))) && !line.contains("kubectl")
        }));
        // Quarantine: a kill damages nothing.
        for dir in [
            "kubelet/pods",
            "kubelet/logs",
            "kubelet/quarantine",
            "runtime/sandboxes",
            "runtime/quarantine",
            "images/holds",
        ] {
            left.extend(entries(&data.join(dir)));
        }
        if let Some((group, interfaces)) = &self.names {
            let links = entries(Path::new("/sys/class/net"));
            left.extend(links.into_iter().filter(|path| path.contains(interfaces.as_str())));
            let controllers = entries(Path::new("/sys/fs/cgroup"));
            for root in controllers.iter().map(Path::new).chain([Path::new("/sys/fs/cgroup")]) {
                let groups = entries(&root.join(group));
                left.extend(groups.into_iter().filter(|path| Path::new(path).is_dir()));
            }
        }
        left
    }

    /// The end of the node's log.
    pub(crate) fn last_of_log(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some((mut proxy, _)) = self.proxy.take() {
            let _ = proxy.kill();
            let _ = proxy.wait();
        }
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let data = self.place.data();
        let said = finish(self.place.coracle(&["down", "--data-dir"]).arg(&data), "");
        if said.status != 0 {
            eprintln!("the node could not be taken down: {}", said.all());
        }
    }
}

/// How many processes want each processor; at least one.
fn waiting_processes() -> f64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|first| first.parse::<f64>().ok()).unwrap_or(1.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (load / processors as f64).max(1.0)
}

/// Whoever reads the file finds all of it.
fn write_whole(path: &Path, lines: &str) {
    let beside = path.with_extension("made");
    fs::write(&beside, lines).and_then(|()| fs::rename(&beside, path)).expect("written");
}

fn entries(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

/// How the kernel's things of this node are called: the control group below which its pods have theirs, and what the names of
/// its interfaces begin with. A running pod shows both.
fn kernel_names(pod: &CasePod) -> Option<(String, String)> {
    let process = pod.processes().into_iter().next()?;
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).ok()?;
    let path = groups
        .lines()
        .find_map(|line| line.splitn(3, ':').nth(2).filter(|path| path.contains("coracle-")))?;
    let parts: Vec<&str> = path.split('/').collect();
    let root = parts.iter().position(|part| part.starts_with("coracle-"))?;
    let sandbox = parts.get(root + 1)?;
    let link = entries(Path::new("/sys/class/net")).into_iter().find(|link| {
        fs::read_to_string(Path::new(link).join("ifalias")).is_ok_and(|alias| alias.contains(sandbox))
    })?;
    let link = link.rsplit('/').next()?.get(..10)?.to_owned();
    Some((parts[root].to_owned(), format!("/{link}")))
}
