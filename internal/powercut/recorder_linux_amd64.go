package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// Recorder runs processes and records their changes to the files of a folder, in order. It traces
// their system calls (ptrace), so the processes need no change.
type Recorder struct {
	root string

	mu     sync.Mutex
	events []Event
	nodes  int
	node   map[string]int
}

// NewRecorder records changes in a folder. It treats the files that exist already as synced.
func NewRecorder(root string) (*Recorder, error) {
	r := &Recorder{root: root, node: map[string]int{}}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name, inside := r.inside(path)
		if err != nil || !inside || name == "." {
			return err
		}
		if e.IsDir() {
			r.named(name, Folder)
			return nil
		}
		content, err := os.ReadFile(path)
		n := r.fresh()
		r.note(Event{Kind: Write, Node: n, Data: content})
		r.sync(Event{Kind: Sync, Node: n})
		r.named(name, n)
		return err
	})
	r.sync(Event{Kind: SyncDir, Name: "."})
	for name, n := range r.node {
		if n == Folder {
			r.sync(Event{Kind: SyncDir, Name: name})
		}
	}
	return r, err
}

// Len returns the number of events so far. If a process has reported data as durable, the events
// that made the data durable are included.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// Events returns the events so far. Callers must not change them.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[:len(r.events):len(r.events)]
}

// inside returns a path relative to the root, with slashes; ok is false if the path is outside the
// root.
func (r *Recorder) inside(path string) (name string, ok bool) {
	rel, err := filepath.Rel(r.root, path)
	return filepath.ToSlash(rel), err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

func (r *Recorder) note(e Event) { r.events = append(r.events, e) }

func (r *Recorder) sync(e Event) {
	e.Covers = len(r.events)
	r.note(e)
}

func (r *Recorder) fresh() int {
	r.nodes++
	return r.nodes
}

func (r *Recorder) named(name string, node int) {
	r.node[name] = node
	r.note(Event{Kind: Name, Node: node, Name: name})
}

func (r *Recorder) unnamed(name string) {
	delete(r.node, name)
	r.note(Event{Kind: Unname, Name: name})
}

func (r *Recorder) renamed(from, to string) {
	n := r.node[from]
	r.node[to] = n
	e := Event{Kind: Name, Node: n, Name: to}
	if n == Folder {
		e.From = from
		for name, node := range maps.Clone(r.node) {
			if below, ok := strings.CutPrefix(name, from+"/"); ok {
				delete(r.node, name)
				r.node[to+"/"+below] = node
			}
		}
	}
	r.note(e)
	r.unnamed(from)
}

// Run runs a command to its end, and returns its status. Run calls the function began when the
// process has started. Run itself waits for the process, so callers must not call the command's
// Wait. Fields that need Wait do not work, such as a Stdout that is not an *os.File.
func (r *Recorder) Run(
	cmd *exec.Cmd, began func(*os.Process),
) (status syscall.WaitStatus, err error) {
	// the kernel accepts ptrace requests only from the thread that began to trace
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return status, err
	}
	pid := cmd.Process.Pid
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return status, err
	}
	const exitKill = 0x100000 // PTRACE_O_EXITKILL, which package syscall lacks
	options := syscall.PTRACE_O_TRACESYSGOOD | syscall.PTRACE_O_TRACECLONE |
		syscall.PTRACE_O_TRACEFORK | syscall.PTRACE_O_TRACEVFORK | exitKill
	if err := syscall.PtraceSetOptions(pid, options); err != nil {
		return status, err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return status, err
	}
	defer memory.Close()
	t := &tracer{
		r: r, pid: pid, memory: memory,
		threads: map[int]*thread{pid: {}}, open: map[int]opened{},
	}
	if err := syscall.PtraceSyscall(pid, 0); err != nil {
		return status, err
	}
	if began != nil {
		began(cmd.Process)
	}
	return t.run()
}

type tracer struct {
	r       *Recorder
	pid     int
	memory  *os.File
	threads map[int]*thread
	open    map[int]opened // files and folders within the root, by descriptor
}

type thread struct {
	inside bool
	call   call
}

type call struct {
	number uint64
	args   [6]uint64
	covers int // number of events before the call
	paths  [2]string
	file   opened
	known  bool // whether file is within the root
}

// opened is an open file or folder below the root.
type opened struct {
	name string
	node int
}

func (t *tracer) run() (status syscall.WaitStatus, err error) {
	const ofThisThread = 0x20000000 // __WNOTHREAD: wait only for children of this thread
	for {
		tid, waiting := syscall.Wait4(-1, &status, syscall.WALL|ofThisThread, nil)
		switch {
		case errors.Is(waiting, syscall.EINTR):
			continue
		case waiting != nil:
			return status, errors.Join(err, waiting)
		case status.Exited() || status.Signaled():
			delete(t.threads, tid)
			if tid == t.pid {
				return status, err
			}
			continue
		case !status.Stopped():
			continue
		}
		signal := 0
		x, known := t.threads[tid]
		if !known {
			x = new(thread)
			t.threads[tid] = x
		}
		switch stop := status.StopSignal(); {
		case stop == syscall.SIGTRAP|0x80:
			if wrong := t.stopped(tid, x); wrong != nil && err == nil {
				// returned at the end, because the traced process must not stay stopped
				err = wrong
			}
		case stop == syscall.SIGTRAP && status.TrapCause() > 0: // the process has made a new thread
		case stop == syscall.SIGSTOP && !known: // first stop of a new thread
		default:
			signal = int(stop)
		}
		// ESRCH means that the thread was killed meanwhile.
		if going := syscall.PtraceSyscall(tid, signal); going != nil && going != syscall.ESRCH {
			return status, errors.Join(err, going)
		}
	}
}

func (t *tracer) stopped(tid int, x *thread) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		if errors.Is(err, syscall.ESRCH) { // the thread was killed
			return nil
		}
		return err
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if x.inside = !x.inside; x.inside {
		x.call = call{
			number: regs.Orig_rax,
			args:   [6]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9},
			covers: len(t.r.events),
		}
		return t.begun(&x.call)
	}
	if result := int64(regs.Rax); result >= 0 {
		return t.done(&x.call, result)
	}
	return nil
}

// begun notes the paths and the open file of a call when the call begins, because the call may
// change them.
func (t *tracer) begun(c *call) (err error) {
	switch c.number {
	case syscall.SYS_OPENAT, syscall.SYS_UNLINKAT, syscall.SYS_MKDIRAT:
		c.paths[0], err = t.path(c.args[0], c.args[1])
	case syscall.SYS_RENAMEAT, sysRenameat2, syscall.SYS_LINKAT:
		if c.paths[0], err = t.path(c.args[0], c.args[1]); err == nil {
			c.paths[1], err = t.path(c.args[2], c.args[3])
		}
	case syscall.SYS_OPEN, syscall.SYS_CREAT, syscall.SYS_UNLINK, syscall.SYS_MKDIR,
		syscall.SYS_RMDIR,
		syscall.SYS_TRUNCATE:
		c.paths[0], err = t.path(atCWD, c.args[0])
	case syscall.SYS_RENAME, syscall.SYS_LINK:
		if c.paths[0], err = t.path(atCWD, c.args[0]); err == nil {
			c.paths[1], err = t.path(atCWD, c.args[1])
		}
	case syscall.SYS_SENDFILE, syscall.SYS_WRITE, syscall.SYS_PWRITE64, syscall.SYS_FSYNC,
		syscall.SYS_FDATASYNC, syscall.SYS_FTRUNCATE, syscall.SYS_FALLOCATE, syscall.SYS_WRITEV,
		syscall.SYS_PWRITEV:
		c.file, c.known = t.open[int(c.args[0])]
	case syscall.SYS_SPLICE, sysCopyFileRange:
		c.file, c.known = t.open[int(c.args[2])]
	case syscall.SYS_CLOSE:
		delete(t.open, int(c.args[0]))
	}
	return err
}

const (
	sysRenameat2     = 316
	sysCopyFileRange = 326
	atCWD            = ^uint64(99) // AT_FDCWD, -100
)

func (t *tracer) done(c *call, result int64) error {
	r := t.r
	from, ofRoot := r.inside(c.paths[0])
	ofRoot = ofRoot && c.paths[0] != ""
	to, toRoot := r.inside(c.paths[1])
	toRoot = toRoot && c.paths[1] != ""
	switch c.number {
	case syscall.SYS_OPENAT:
		if ofRoot {
			t.opened(from, int(result), int(c.args[2]))
		}
	case syscall.SYS_MKDIRAT, syscall.SYS_MKDIR:
		if ofRoot {
			r.named(from, Folder)
		}
	case syscall.SYS_UNLINKAT, syscall.SYS_UNLINK, syscall.SYS_RMDIR:
		if ofRoot {
			r.unnamed(from)
		}
	case syscall.SYS_LINKAT, syscall.SYS_LINK:
		if ofRoot && toRoot {
			r.named(to, r.node[from])
		}
	case syscall.SYS_RENAMEAT, sysRenameat2, syscall.SYS_RENAME:
		if ofRoot != toRoot {
			return fmt.Errorf("powercut: cannot record the rename of %s to %s: one of them is "+
				"outside the recorded folder", c.paths[0], c.paths[1])
		}
		if ofRoot {
			r.renamed(from, to)
		}
	case syscall.SYS_OPEN, syscall.SYS_CREAT, syscall.SYS_TRUNCATE:
		if ofRoot {
			return fmt.Errorf("powercut: cannot record system call %d with the path "+
				"%s", c.number, c.paths[0])
		}
	default:
		if c.known {
			return t.changed(c, result)
		}
	}
	return nil
}

func (t *tracer) opened(name string, descriptor, flags int) {
	r := t.r
	n, there := r.node[name]
	switch {
	case name == ".":
		n = Folder
	case !there:
		n = r.fresh()
		r.named(name, n)
	}
	if flags&syscall.O_TRUNC != 0 && there {
		r.note(Event{Kind: Size, Node: n})
	}
	t.open[descriptor] = opened{name, n}
}

func (t *tracer) changed(c *call, result int64) error {
	r := t.r
	switch c.number {
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64:
		off := int64(c.args[3])
		if c.number == syscall.SYS_WRITE {
			end, err := t.position(int(c.args[0]))
			if err != nil {
				return err
			}
			off = end - result
		}
		data := make([]byte, result)
		if _, err := t.memory.ReadAt(data, int64(c.args[1])); err != nil {
			return fmt.Errorf("powercut: reading the data written to %s: %w", c.file.name, err)
		}
		r.note(Event{Kind: Write, Node: c.file.node, Offset: off, Data: data})
	case syscall.SYS_FTRUNCATE:
		r.note(Event{Kind: Size, Node: c.file.node, Offset: int64(c.args[1])})
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		e := Event{Kind: Sync, Node: c.file.node, Covers: c.covers}
		if c.file.node == Folder {
			e = Event{Kind: SyncDir, Name: c.file.name, Covers: c.covers}
		}
		r.note(e)
	default:
		return fmt.Errorf("powercut: cannot record system call %d on the open file "+
			"%s", c.number, c.file.name)
	}
	return nil
}

func (t *tracer) position(descriptor int) (at int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.pid, descriptor))
	if err == nil {
		_, err = fmt.Sscanf(string(text), "pos: %d", &at)
	}
	return at, err
}

// path returns the path in a system call's arguments: a folder's descriptor, and the address of a
// name in the process's memory.
func (t *tracer) path(folder, address uint64) (string, error) {
	var text []byte
	for block := make([]byte, 256); ; {
		n, err := t.memory.ReadAt(block, int64(address)+int64(len(text)))
		if at := bytes.IndexByte(block[:n], 0); at >= 0 {
			text = append(text, block[:at]...)
			break
		}
		text = append(text, block[:n]...)
		if err != nil {
			return "", fmt.Errorf("powercut: reading a path: %w", err)
		}
	}
	name := string(text)
	if filepath.IsAbs(name) {
		return filepath.Clean(name), nil
	}
	link := fmt.Sprintf("/proc/%d/cwd", t.pid)
	if int32(folder) >= 0 {
		link = fmt.Sprintf("/proc/%d/fd/%d", t.pid, int32(folder))
	}
	dir, err := os.Readlink(link)
	return filepath.Join(dir, name), err
}
