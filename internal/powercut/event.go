// Package powercut computes, for tests, the disks that a power cut may leave. An Event is a change
// that a program has made to files. A Recorder records the events of a running process. An Image,
// after some of the events, knows what is certainly on the disk and what may be. Restore writes one
// of the possible disks. What a program has reported as durable must be on each of them.
package powercut

// Kind is the kind of change of an Event.
type Kind string

// The kinds of events. A renamed file gets its new name before it loses its old one. A power cut
// may come between, or undo either: most file systems are not as bad.
const (
	Write Kind = "write" // Data at Offset of Node
	Size  Kind = "size"  // the size of Node becomes Offset, by cutting or by adding zeros
	Sync  Kind = "sync"  // the changes to Node are on the disk
	// Node gets Name; with From, a folder takes over the content of that folder
	Name    Kind = "name"
	Unname  Kind = "unname"  // Name is removed
	SyncDir Kind = "syncdir" // the names in the folder Name are on the disk
	Nothing Kind = "nothing" // an event that a test has removed
)

// Folder is the Node of a folder.
const Folder = -1

// Event is one change that a program has made.
type Event struct {
	Kind   Kind
	Node   int // number of a file, under any name: 1 and up
	Offset int64
	Data   []byte
	Name   string // path on the disk, with slashes
	From   string // earlier name of a renamed folder
	// Covers is the number of events before a sync began: it covers only these. In a sequential
	// program these are all events before it.
	Covers int
}
