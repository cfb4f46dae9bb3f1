// Package powercut computes, for tests, which contents of a disk are possible after a power cut. An
// Event is a change that a program has made to files. A Recorder records the events of a running
// process. An Image describes the disk after some of the events: what is certainly on it, and what
// may be. Restore writes one possible content to a folder. What a program has reported as durable
// must be in every possible content.
package powercut

// Kind is the kind of change of an Event.
type Kind string

// The kinds of events. A renamed file gets its new name before it loses its old one. A power cut
// may come between the two events, or undo either of them. This is stricter than most file systems,
// which rename in one step.
const (
	Write Kind = "write" // Data at Offset of Node
	Size  Kind = "size"  // the size of Node becomes Offset, by cutting or by adding zeros
	Sync  Kind = "sync"  // the changes to Node are on the disk
	// Node gets Name. For a renamed folder, From is the earlier name; its content moves, too.
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
	Node   int // number of a file, from 1; a renamed file keeps it
	Offset int64
	Data   []byte
	Name   string // path on the disk, with slashes
	From   string // earlier name of a renamed folder
	// Covers is the number of events before a sync began. Only their changes are certainly on the
	// disk afterwards, since other threads may write during a sync.
	Covers int
}
