//! Installing a compiled system call filter without touching `no_new_privs`.

use std::io;

/// One instruction of a classic BPF program, as `seccomp(2)` takes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterInstruction {
    /// Operation.
    pub code: u16,
    /// Jump distance when true.
    pub jump_true: u8,
    /// Jump distance when false.
    pub jump_false: u8,
    /// Operand.
    pub operand: u32,
}

/// Why a filter was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallFilterError {
    /// The kernel takes 1 to 4096 instructions.
    #[error("a system call filter of {0} instructions cannot be installed; the kernel takes 1 to 4096")]
    Length(usize),
    /// The kernel refused; without CAP_SYS_ADMIN it demands `no_new_privs`.
    #[error("the kernel refused the system call filter")]
    Refused(#[source] io::Error),
}

/// Stacks a filter on those that this thread already has. It stays for good, through `execve` too.
///
/// # Errors
///
/// See [`InstallFilterError`].
#[allow(unsafe_code)]
pub fn install_filter(program: &[FilterInstruction]) -> Result<(), InstallFilterError> {
    let length = u16::try_from(program.len()).ok().filter(|length| (1..=4096).contains(length));
    let length = length.ok_or(InstallFilterError::Length(program.len()))?;
    let program =
        libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast::<libc::sock_filter>() };
    // SAFETY: `FilterInstruction` has the layout of `sock_filter`; the kernel copies `len` of them and writes none.
    // JUSTIFICATION: the wrappers set no_new_privs, which Kubernetes leaves off by default.
    let answer = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, std::ptr::from_ref(&program))
    };
    if answer == 0 { Ok(()) } else { Err(InstallFilterError::Refused(io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_the_kernels_layout() {
        assert_eq!(size_of::<FilterInstruction>(), size_of::<libc::sock_filter>());
        assert_eq!(align_of::<FilterInstruction>(), align_of::<libc::sock_filter>());
    }

    #[test]
    fn an_empty_program_is_refused_before_the_kernel_sees_it() {
        assert!(matches!(install_filter(&[]), Err(InstallFilterError::Length(0))));
    }
}
