package folder

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/lmserve/lmserve/internal/powercut"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// disk is the file system of a real folder. It records all writes and syncs, so that a test can
// compute what a power cut would leave. It can also return errors.
type disk struct {
	osFiles
	root string

	mu     sync.Mutex
	events []powercut.Event
	node   map[string]int
	nodes  int

	// fault, if not nil, is called before every operation. If it returns an error, the operation
	// fails with this error.
	fault      func(o operation) error
	operations []operation
}

type operation struct {
	n    int
	kind string
	name string
}

func newDisk(root string) *disk { return &disk{root: root, node: map[string]int{}} }

func (d *disk) rel(name string) string {
	rel, err := filepath.Rel(d.root, name)
	if err != nil {
		panic(err)
	}
	return filepath.ToSlash(rel)
}

// begin records an operation. If fault returns an error, the operation must fail with the error
// that begin returns.
func (d *disk) begin(kind, name string) error {
	o := operation{n: len(d.operations), kind: kind, name: d.rel(name)}
	d.operations = append(d.operations, o)
	if d.fault != nil {
		if err := d.fault(o); err != nil {
			return &fs.PathError{Op: kind, Path: name, Err: err}
		}
	}
	return nil
}

func (d *disk) note(e powercut.Event) {
	e.Covers = len(d.events)
	d.events = append(d.events, e)
}

func (d *disk) nodeOf(name string) int {
	rel := d.rel(name)
	if _, ok := d.node[rel]; !ok {
		d.nodes++
		d.node[rel] = d.nodes
	}
	return d.node[rel]
}

func (d *disk) Mkdir(name string, perm fs.FileMode) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("mkdir", name); err != nil {
		return err
	}
	if err := os.Mkdir(name, perm); err != nil {
		return err
	}
	d.node[d.rel(name)] = powercut.Folder
	d.note(powercut.Event{Kind: powercut.Name, Node: powercut.Folder, Name: d.rel(name)})
	return nil
}

func (d *disk) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	if writes {
		if err := d.begin("open", name); err != nil {
			return nil, err
		}
	}
	_, missing := os.Lstat(name)
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	n := d.nodeOf(name)
	switch {
	case flag&os.O_CREATE != 0 && missing != nil:
		d.note(powercut.Event{Kind: powercut.Name, Node: n, Name: d.rel(name)})
	case flag&os.O_TRUNC != 0:
		d.note(powercut.Event{Kind: powercut.Size, Node: n})
	}
	return &diskFile{File: f, d: d, node: n}, nil
}

func (d *disk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("link", to); err != nil {
		return err
	}
	if err := os.Link(from, to); err != nil {
		return err
	}
	n := d.nodeOf(from)
	d.node[d.rel(to)] = n
	d.note(powercut.Event{Kind: powercut.Name, Node: n, Name: d.rel(to)})
	return nil
}

func (d *disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("rename", to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	relFrom, relTo := d.rel(from), d.rel(to)
	n := d.nodeOf(from)
	delete(d.node, relFrom)
	d.node[relTo] = n
	e := powercut.Event{Kind: powercut.Name, Node: n, Name: relTo}
	if n == powercut.Folder {
		e.From = relFrom
		for name, node := range d.node {
			if below, ok := strings.CutPrefix(name, relFrom+"/"); ok {
				delete(d.node, name)
				d.node[relTo+"/"+below] = node
			}
		}
	}
	d.note(e)
	d.note(powercut.Event{Kind: powercut.Unname, Name: relFrom})
	return nil
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("remove", name); err != nil {
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
	if err := d.begin("syncdir", name); err != nil {
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

// WriteAt writes p. When a test makes the call fail, WriteAt first writes half of p.
func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	fault := f.d.begin("write", f.Name())
	if fault != nil {
		p = p[:len(p)/2]
	}
	f.d.note(powercut.Event{Kind: powercut.Write, Node: f.node, Offset: off, Data: slices.Clone(p)})
	n, err := f.File.WriteAt(p, off)
	if fault != nil {
		return n, fault
	}
	return n, err
}

func (f *diskFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.begin("truncate", f.Name()); err != nil {
		return err
	}
	f.d.note(powercut.Event{Kind: powercut.Size, Node: f.node, Offset: size})
	return f.File.Truncate(size)
}

func (f *diskFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.begin("sync", f.Name()); err != nil {
		return err
	}
	f.d.note(powercut.Event{Kind: powercut.Sync, Node: f.node})
	return nil
}

func dump(s storage.Store) (string, error) {
	var b strings.Builder
	sessions, err := s.List(background, "", 1000)
	if err != nil {
		return "", err
	}
	for _, x := range sessions {
		if x.Err != nil {
			return "", x.Err
		}
		fmt.Fprintf(&b, "%s %q %d-%d %d %v\n", x.ID, x.Head, x.Start, x.End, x.LastAt, x.Last)
		err := s.Read(background, x.ID, x.Start, func(at int64, r storage.Record) error {
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
				fmt.Fprintf(&b, "  snapshot %d %d bytes %x\n", k.Offset, len(content),
					sha256.Sum256(content))
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
