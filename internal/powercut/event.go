// Package powercut makes, for tests, the disks that a power cut may leave. An Event is what a
// program has done to files; a Recorder takes the events of a running process; an Image, after some
// of the events, knows what is surely on the disk and what may be; and Restore writes one of the
// disks that are possible. What a program has told to be durable must be on each of them.
package powercut

// Kind is what an Event has done.
type Kind string

// The kinds of events. A file that is renamed has its new name before it loses its old one, and a
// power cut may come between, or undo either: that is more than most file systems do to a name.
const (
	Write   Kind = "write"   // Data at Offset of Node
	Size    Kind = "size"    // Node has Offset bytes, cut off or filled up with zeros
	Sync    Kind = "sync"    // what was done to Node is on the disk
	Name    Kind = "name"    // Name is that of Node; a folder with From brings what is in that one
	Unname  Kind = "unname"  // Name is gone
	SyncDir Kind = "syncdir" // the names in the folder Name are on the disk
	Nothing Kind = "nothing" // an event that a test has taken away
)

// Folder is the Node of a folder.
const Folder = -1

// Event is one thing that a program has done.
type Event struct {
	Kind   Kind
	Node   int // of a file, by whatever name: 1 and up
	Offset int64
	Data   []byte
	Name   string // within the disk, with slashes
	From   string // of a folder that is renamed: its name before
	// Covers is the number of events that came before a sync was asked for: it is of these only. Of
	// a program that does one thing at a time these are all events before.
	Covers int
}
