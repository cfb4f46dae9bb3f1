package kernel

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// yield offers this core to other threads of the machine.
func yield() { unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// core returns the core that this thread runs on.
func core() int {
	var n uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&n)), 0, 0)
	return int(n)
}

// leave moves this thread off a core. On a virtual machine, Linux may believe that an idle core is
// absent. It then wakes a thread on the core of the thread that wakes it. Both threads share that
// core until Linux balances the load, which takes ten milliseconds or more.
func leave(core int) {
	runtime.LockOSThread() // both system calls must come from the same thread
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
