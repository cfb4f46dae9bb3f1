package sessionlog

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/lmserve/lmserve/internal/powercut"
)

// disk is a real folder that remembers what was written to it and what was synced, so that it can
// tell what a power cut would have left of it; and it can be made to fail.
type disk struct {
	osFiles
	root string

	mu     sync.Mutex
	events []powercut.Event
	node   map[string]int // of the names as they are
	nodes  int

	// fault, if there is one, is asked before every operation; what it returns is how the operation
	// fails.
	fault      func(o operation) error
	operations []operation

	size       int64 // of bbolt's file
	committing bool  // bbolt has written a meta page, and syncs it before anything else happens
}

// operation is one call that could fail.
type operation struct {
	n    int // how many were before it
	kind string
	name string // within the folder
	size int    // of what is written
}

func newDisk(root string) *disk {
	d := &disk{root: root, node: map[string]int{}}
	return d
}

func (d *disk) environment() environment {
	return environment{files: d, opened: d.intercept, unsynced: true, sweepBytes: 500}
}

func (d *disk) rel(name string) string {
	rel, err := filepath.Rel(d.root, name)
	if err != nil {
		panic(err)
	}
	return filepath.ToSlash(rel)
}

// begin asks whether an operation may go on.
func (d *disk) begin(kind, name string, size int) error {
	d.settle()
	o := operation{n: len(d.operations), kind: kind, name: d.rel(name), size: size}
	d.operations = append(d.operations, o)
	if d.fault != nil {
		if err := d.fault(o); err != nil {
			return &fs.PathError{Op: kind, Path: name, Err: err}
		}
	}
	return nil
}

// settle notes that a commit is over, if one is.
func (d *disk) settle() {
	if d.committing {
		d.committing = false
		d.note(powercut.Event{Kind: powercut.Sync, Node: d.node[databaseName]})
	}
}

func (d *disk) note(e powercut.Event) {
	e.Covers = len(d.events)
	d.events = append(d.events, e)
}

// nodeOf gives the number of the file that has a name.
func (d *disk) nodeOf(name string) int {
	rel := d.rel(name)
	if _, ok := d.node[rel]; !ok {
		d.nodes++
		d.node[rel] = d.nodes
	}
	return d.node[rel]
}

func (d *disk) MkdirAll(name string, perm fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := os.Stat(name); err != nil && name != d.root {
		d.note(powercut.Event{Kind: powercut.Name, Node: powercut.Folder, Name: d.rel(name)})
	}
	return os.MkdirAll(name, perm)
}

func (d *disk) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	if writes {
		if err := d.begin("open", name, 0); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	n := d.nodeOf(name)
	if flag&os.O_CREATE != 0 {
		d.note(powercut.Event{Kind: powercut.Name, Node: n, Name: d.rel(name)})
	}
	return &diskFile{File: f, d: d, node: n}, nil
}

func (d *disk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("link", to, 0); err != nil {
		return err
	}
	if err := os.Link(from, to); err != nil {
		return err
	}
	content, err := os.ReadFile(to) // bbolt has synced it
	if err != nil {
		return err
	}
	n := d.nodeOf(to)
	d.note(powercut.Event{Kind: powercut.Write, Node: n, Data: content})
	d.note(powercut.Event{Kind: powercut.Sync, Node: n})
	d.note(powercut.Event{Kind: powercut.Name, Node: n, Name: d.rel(to)})
	return nil
}

func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("rename", to, 0); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	n := d.nodeOf(from)
	delete(d.node, d.rel(from))
	d.node[d.rel(to)] = n
	d.note(powercut.Event{Kind: powercut.Name, Node: n, Name: d.rel(to)})
	d.note(powercut.Event{Kind: powercut.Unname, Name: d.rel(from)})
	return nil
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("remove", name, 0); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil {
		return err
	}
	delete(d.node, d.rel(name))
	d.note(powercut.Event{Kind: powercut.Unname, Name: d.rel(name)})
	return nil
}

func (d *disk) SyncDir(name string) error {
	if name == filepath.Dir(d.root) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("syncdir", name, 0); err != nil {
		return err
	}
	d.note(powercut.Event{Kind: powercut.SyncDir, Name: d.rel(name)})
	return nil
}

type diskFile struct {
	*os.File
	d    *disk
	node int
	at   int64
}

func (f *diskFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	return f.d.write(f.File.WriteAt, f.Name(), f.node, p, off)
}

// write writes, or fails after half of it.
func (d *disk) write(writeAt func([]byte, int64) (int, error), name string, node int, p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fault := d.begin("write", name, len(p))
	if fault != nil {
		p = p[:len(p)/2]
	}
	d.note(powercut.Event{Kind: powercut.Write, Node: node, Offset: off, Data: slices.Clone(p)})
	n, err := writeAt(p, off)
	if fault != nil {
		return n, fault
	}
	return n, err
}

func (f *diskFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.begin("sync", f.Name(), 0); err != nil {
		return err
	}
	f.d.note(powercut.Event{Kind: powercut.Sync, Node: f.node})
	return nil
}

// intercept puts the disk between bbolt and its file. bbolt syncs before it writes a meta page, and
// before a commit returns; that it does is what TestAFailedSyncIsFatal shows. Here it does not
// (unsynced), which is much faster: nobody pulls the plug.
func (d *disk) intercept(db *bbolt.DB) {
	writeAt := writeAtOf(db)
	real, path := *writeAt, db.Path()
	node := d.nodeOf(path)
	*writeAt = func(p []byte, off int64) (int, error) {
		info, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		if info.Size() > d.size {
			d.size = info.Size() // bbolt has synced that, too
			d.note(powercut.Event{Kind: powercut.Size, Node: node, Offset: d.size})
			d.note(powercut.Event{Kind: powercut.Sync, Node: node})
		}
		if off >= 2*pageBytes {
			return d.write(real, path, node, p, off)
		}
		d.note(powercut.Event{Kind: powercut.Sync, Node: node})
		n, err := d.write(real, path, node, p, off)
		d.committing = err == nil
		return n, err
	}
}

// writeAtOf reaches what bbolt keeps for its own tests.
func writeAtOf(db *bbolt.DB) *func([]byte, int64) (int, error) {
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	return (*func([]byte, int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
}

// dump is all that can be read from a store, as text.
func dump(s Store) (string, error) {
	var b strings.Builder
	sessions, err := s.List(background, "", 1000)
	if err != nil {
		return "", err
	}
	for _, x := range sessions {
		if x.Err != nil {
			return "", x.Err
		}
		fmt.Fprintf(&b, "%s %d %q %d-%d\n", x.ID, x.Epoch, x.Head, x.Start, x.End)
		err := s.Read(background, x.ID, x.Start, func(at int64, r Record) error {
			fmt.Fprintf(&b, "  %d %d %v %v %v %v %v %d bytes %x\n", at, r.UnixMS, r.Bits,
				r.HasBaseline, r.Baseline, r.ByLine, r.Skipped, len(r.Text), sha256.Sum256(r.Text))
			return nil
		})
		if err != nil {
			return "", err
		}
		kept, err := s.Snapshots(background, x.ID)
		if err != nil {
			return "", err
		}
		for _, k := range kept {
			err := s.ReadSnapshot(background, x.ID, k.Offset, func(r io.Reader) error {
				content, err := io.ReadAll(r)
				fmt.Fprintf(&b, "  snapshot %d %d bytes %x\n", k.Offset, len(content), sha256.Sum256(content))
				return err
			})
			if err != nil {
				return "", err
			}
		}
	}
	return b.String(), nil
}

var (
	errNoSpace = error(syscall.ENOSPC)
	errIO      = error(syscall.EIO)
)
