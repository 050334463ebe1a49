//! The last steps of a process inside a container: privileges, filters, working directory, and the program.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nix::errno::Errno;
use rustix::process::Signal;
use rustix::thread::{CapabilitySet, CapabilitySets};
use sys::FilterInstruction;

use super::error::{InitError, Step as _};
use crate::launch::{CapabilityBits, ProcessRecord, Variable};

/// Becomes the program. Returns only when that failed.
///
/// The order matters: groups and user while all capabilities are there (kept over the change of user), then the
/// filters, which need CAP_SYS_ADMIN unless new privileges are off, then the capabilities, then the program.
pub(super) fn become_program(process: &ProcessRecord) -> InitError {
    match try_become(process) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

enum Never {}

fn try_become(process: &ProcessRecord) -> Result<Never, InitError> {
    let args = arguments(&process.args)?;
    let environment = environment(&process.environment)?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    keep_bounding(process.capabilities.bounding)?;
    let groups: Vec<rustix::fs::Gid> =
        process.groups.iter().map(|gid| rustix::fs::Gid::from_raw(*gid)).collect();
    rustix::thread::set_keep_capabilities(true).step("keep capabilities")?;
    rustix::thread::set_thread_groups(&groups).step("set the groups")?;
    let gid = rustix::fs::Gid::from_raw(process.gid);
    rustix::thread::set_thread_res_gid(gid, gid, gid).step("set the group")?;
    let uid = rustix::fs::Uid::from_raw(process.uid);
    rustix::thread::set_thread_res_uid(uid, uid, uid).step("set the user")?;
    // The change of user cleared what is effective, not what is permitted.
    let held = rustix::thread::capabilities(None).step("read capabilities")?;
    rustix::thread::set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })
        .step("take capabilities back")?;
    rustix::thread::set_keep_capabilities(false).step("stop keeping capabilities")?;
    // As the user: root may enter directories that the user may not.
    enter_directory(&process.working_directory, process)?;
    if process.no_new_privileges {
        rustix::thread::set_no_new_privs(true).step("switch new privileges off")?;
    }
    let program = find_program(&process.args, &process.environment, process)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .step("tie the process to its supervisor")?;
    sys::reset_signals().step("reset signals")?;
    for filter in &process.filters {
        let instructions: Vec<FilterInstruction> = filter
            .iter()
            .map(|&(code, jump_true, jump_false, operand)| FilterInstruction {
                code,
                jump_true,
                jump_false,
                operand,
            })
            .collect();
        sys::install_filter(&instructions)?;
    }
    apply_capabilities(process.capabilities)?;
    let error = match nix::unistd::execve(&program, &args, &environment) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    let hint = match error {
        Errno::ENOENT => {
            "; the interpreter that the file names in its first line, or its loader, is not in the image"
        }
        Errno::ENOEXEC => {
            "; the file is no program of this machine's kind, or a script without a first line `#!...`"
        }
        Errno::E2BIG => "; the arguments and the environment together are larger than the kernel takes",
        _ => "",
    };
    Err(InitError::Execute { program: process.args[0].clone(), source: error.into(), hint })
}

fn arguments(args: &[String]) -> Result<Vec<CString>, InitError> {
    if args.is_empty() {
        return Err(InitError::NoCommand);
    }
    args.iter()
        .enumerate()
        .map(|(index, arg)| CString::new(arg.as_str()).map_err(|_| InitError::NulInArgument { index }))
        .collect()
}

fn environment(variables: &[Variable]) -> Result<Vec<CString>, InitError> {
    variables
        .iter()
        .map(|variable| {
            let text = format!("{}={}", variable.name, variable.value);
            CString::new(text).map_err(|_| InitError::NulInVariable { name: variable.name.clone() })
        })
        .collect()
}

fn set_of(bits: u64) -> CapabilitySet {
    CapabilitySet::from_bits_retain(bits)
}

fn keep_bounding(bounding: u64) -> Result<(), InitError> {
    for number in 0..u64::BITS {
        let bit = 1u64 << number;
        match rustix::thread::capability_is_in_bounding_set(set_of(bit)) {
            Ok(true) if bounding & bit == 0 => {
                rustix::thread::remove_capability_from_bounding_set(set_of(bit))
                    .step("limit capabilities")?;
            }
            Ok(_) => {}
            // The first number that this kernel does not know.
            Err(_) => break,
        }
    }
    Ok(())
}

fn apply_capabilities(capabilities: CapabilityBits) -> Result<(), InitError> {
    // Ambient capabilities must be inheritable; without them nothing is (CVE-2022-24769).
    let sets = CapabilitySets {
        effective: set_of(capabilities.effective),
        permitted: set_of(capabilities.effective),
        inheritable: set_of(capabilities.ambient),
    };
    rustix::thread::clear_ambient_capability_set().step("clear ambient capabilities")?;
    rustix::thread::set_capabilities(None, sets).step("set capabilities")?;
    for number in 0..u64::BITS {
        let bit = 1u64 << number;
        if capabilities.ambient & bit != 0 {
            rustix::thread::configure_capability_in_ambient_set(set_of(bit), true)
                .step("set ambient capabilities")?;
        }
    }
    Ok(())
}

fn enter_directory(directory: &str, process: &ProcessRecord) -> Result<(), InitError> {
    let directory = if directory.is_empty() { "/" } else { directory };
    match rustix::process::chdir(directory) {
        Ok(()) => {}
        Err(error) => {
            return Err(InitError::Path {
                step: "enter the working directory",
                path: format!("{directory:?} as user {}", process.uid),
                source: error.into(),
            });
        }
    }
    // A descriptor of the node that leaked in would make a directory outside look like one inside.
    let current = rustix::process::getcwd(Vec::new()).step("read the working directory")?;
    if current.to_bytes().first() != Some(&b'/') {
        return Err(InitError::DirectoryOutside { path: directory.to_owned() });
    }
    Ok(())
}

/// Finds the program as a shell would: a name with a slash is a path, others are searched in `PATH`.
fn find_program(
    args: &[String],
    environment: &[Variable],
    process: &ProcessRecord,
) -> Result<CString, InitError> {
    let name = args.first().ok_or(InitError::NoCommand)?;
    let as_c = |path: &str| CString::new(path).map_err(|_| InitError::NulInArgument { index: 0 });
    let failed = |source: io::Error| InitError::Execute { program: name.clone(), source, hint: "" };
    if name.contains('/') {
        check_executable(Path::new(name), process).map_err(failed)?;
        return as_c(name);
    }
    let path =
        environment.iter().find(|variable| variable.name == "PATH").map_or("", |variable| &variable.value);
    let mut refused = None;
    for directory in path.split(':').filter(|_| !path.is_empty() && !name.is_empty()) {
        let candidate =
            if directory.is_empty() { format!("./{name}") } else { format!("{directory}/{name}") };
        match check_executable(Path::new(&candidate), process) {
            Ok(()) => return as_c(&candidate),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = Some(error),
            Err(_) => {}
        }
    }
    Err(refused.map_or_else(|| InitError::NotInPath { program: name.clone() }, failed))
}

fn check_executable(path: &Path, process: &ProcessRecord) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let mode = metadata.permissions().mode();
    let executable = if process.uid == 0 {
        mode & 0o111 != 0
    } else if metadata.uid() == process.uid {
        mode & 0o100 != 0
    } else if metadata.gid() == process.gid || process.groups.contains(&metadata.gid()) {
        mode & 0o010 != 0
    } else {
        mode & 0o001 != 0
    };
    // Access lists may say otherwise; the kernel has the last word on what passes here.
    if executable { Ok(()) } else { Err(io::Error::from(io::ErrorKind::PermissionDenied)) }
}
