package kernel

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func yield() { unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

func core() int {
	var n uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&n)), 0, 0)
	return int(n)
}

// leave moves this thread to a core other than the given one. It corrects a scheduling error on
// virtual machines: if Linux wrongly considers idle cores absent, a woken thread shares the core of
// the thread that woke it. Without leave, the two threads share the core until Linux balances the
// load, after 10 ms or more.
func leave(core int) {
	runtime.LockOSThread() // both system calls must run on the same thread
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || !all.IsSet(core) || all.Count() < 2 {
		return
	}
	others := all
	others.Clear(core)
	if unix.SchedSetaffinity(0, &others) == nil {
		unix.SchedSetaffinity(0, &all)
	}
}
