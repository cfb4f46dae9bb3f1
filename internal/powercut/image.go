package powercut

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// sectorBytes is the number of bytes that a disk writes completely or not at all.
const sectorBytes = 512

// Image describes the certain and the possible content of a disk on which some changes are not
// synced.
type Image struct {
	content map[int][]byte  // synced content of files, by node
	names   map[string]int  // node of each synced name
	folders map[string]bool // every name that a folder has had

	writes  map[int][]numbered // Write and Size events that are not synced yet, by node
	changes []numbered         // Name and Unname events that are not synced yet
	events  int
}

// numbered is an event with its index in the order of all events.
type numbered struct {
	Event
	n int
}

// After returns the image of a disk that was empty before the events. It does not change the
// events.
func After(events []Event) *Image {
	i := NewImage()
	for _, e := range events {
		i.Add(e)
	}
	return i
}

// NewImage returns the image of an empty disk.
func NewImage() *Image {
	return &Image{
		content: map[int][]byte{}, names: map[string]int{}, folders: map[string]bool{},
		writes: map[int][]numbered{},
	}
}

// Add advances the image by one event.
func (i *Image) Add(event Event) {
	e := numbered{event, i.events}
	i.events++
	switch e.Kind {
	case Write, Size:
		i.writes[e.Node] = append(i.writes[e.Node], e)
	case Sync:
		i.writes[e.Node] = slices.DeleteFunc(i.writes[e.Node], func(w numbered) bool {
			if w.n < e.Covers {
				i.content[e.Node] = w.apply(i.content[e.Node], always)
			}
			return w.n < e.Covers
		})
	case Name, Unname:
		if e.Kind == Name && e.Node == Folder {
			i.folders[e.Name] = true
		}
		if e.From != "" {
			i.move(e.From+"/", e.Name+"/")
		}
		i.changes = append(i.changes, e)
	case SyncDir:
		var gone []numbered // folders whose removal is now on the disk
		i.changes = slices.DeleteFunc(i.changes, func(c numbered) bool {
			of := c.n < e.Covers && path.Dir(c.Name) == e.Name
			if of {
				i.rename(c.Event, i.names)
			}
			if of && c.Kind == Unname && i.folders[c.Name] {
				gone = append(gone, c)
			}
			return of
		})
		for _, g := range gone {
			i.changes = slices.DeleteFunc(i.changes, func(c numbered) bool {
				return c.n < g.n && strings.HasPrefix(c.Name, g.Name+"/")
			})
		}
	}
}

// move handles a renamed folder. For every name with the prefix `from`, it adds the name with the
// prefix `to`. The added names survive a power cut only if the folder's new name survives.
func (i *Image) move(from, to string) {
	for name, node := range maps.Clone(i.names) {
		if below, ok := strings.CutPrefix(name, from); ok {
			i.names[to+below] = node
		}
	}
	for name := range maps.Clone(i.folders) {
		if below, ok := strings.CutPrefix(name, from); ok {
			i.folders[to+below] = true
		}
	}
	for _, c := range slices.Clone(i.changes) {
		if below, ok := strings.CutPrefix(c.Name, from); ok {
			c.Name = to + below
			i.changes = append(i.changes, c)
		}
	}
}

// rename applies a Name or Unname event to names. If the name of a folder is removed, all names
// within the folder are removed, too.
func (i *Image) rename(e Event, names map[string]int) {
	if e.Kind == Name {
		names[e.Name] = e.Node
		return
	}
	delete(names, e.Name)
	if i.folders[e.Name] {
		maps.DeleteFunc(names, func(name string, _ int) bool {
			return strings.HasPrefix(name,
				e.Name+"/")
		})
	}
}

// apply applies a write or a change of size to a file's content. It leaves out the sectors, or the
// change of size, that do not survive the power cut.
func (e *Event) apply(content []byte, survives func() bool) []byte {
	if e.Kind == Size {
		if !survives() {
			return content
		}
		return append(content[:min(e.Offset, int64(len(content)))],
			make([]byte, max(0, e.Offset-int64(len(content))))...)
	}
	// Each pass writes within one sector of the disk. The write may begin in the middle of a
	// sector.
	for at := 0; at < len(e.Data); {
		end := min(len(e.Data), at+sectorBytes-int((e.Offset+int64(at))%sectorBytes))
		if survives() {
			content = overwrite(content, e.Offset+int64(at), e.Data[at:end])
		}
		at = end
	}
	return content
}

func overwrite(content []byte, off int64, data []byte) []byte {
	if need := off + int64(len(data)) - int64(len(content)); need > 0 {
		content = append(content, make([]byte, need)...)
	}
	copy(content[off:], data)
	return content
}

// Settled reports whether everything is synced, so that the result of a power cut is certain.
func (i *Image) Settled() bool {
	for _, w := range i.writes {
		if len(w) > 0 {
			return false
		}
	}
	return len(i.changes) == 0
}

// Survivor decides which unsynced changes survive the power cut.
type Survivor struct {
	Write func() bool // called for every written sector and every change of a file's size
	Name  func() bool // called for every change of a name
}

func always() bool { return true }
func never() bool  { return false }

// With Everything, all unsynced changes survive. With OnlySynced, no unsynced change survives.
var (
	Everything = Survivor{always, always}
	OnlySynced = Survivor{never, never}
)

// Restore makes a folder with the content after a power cut.
func (i *Image) Restore(dir string, s Survivor) error {
	names := maps.Clone(i.names)
	for _, c := range i.changes {
		if s.Name() {
			i.rename(c.Event, names)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	first := map[int]string{}                              // first path of each node
	for _, name := range slices.Sorted(maps.Keys(names)) { // a folder sorts before its content
		if !i.reachable(name, names) {
			continue
		}
		to, node := filepath.Join(dir, filepath.FromSlash(name)), names[name]
		if linked, ok := first[node]; ok && node != Folder {
			if err := os.Link(linked, to); err != nil {
				return err
			}
			continue
		}
		if err := i.restore(to, node, s); err != nil {
			return err
		}
		first[node] = to
	}
	return nil
}

// reachable reports whether all parent folders of a name have survived.
func (i *Image) reachable(name string, names map[string]int) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, there := names[dir]; i.folders[dir] && !there {
			return false
		}
	}
	return true
}

func (i *Image) restore(to string, node int, s Survivor) error {
	if node == Folder {
		return os.MkdirAll(to, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	content := slices.Clone(i.content[node])
	for _, w := range i.writes[node] {
		content = w.apply(content, s.Write)
	}
	return os.WriteFile(to, content, 0o600)
}
