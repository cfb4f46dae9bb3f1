// Package powercut computes, for tests, which contents of a disk are possible after a power cut. An
// Event is a change that a program has made to files. A Recorder records the events of a running
// process. An Image describes the certain and the possible content of the disk after some of the
// events. Restore writes one possible content to a folder. Data that a program has reported as
// durable must be in every possible content.
package powercut

// Kind is the kind of change of an Event.
type Kind string

// These are the kinds of events. A renamed file gets its new name before it loses its old name. A
// power cut may come between the two events, or undo either of them. This model is stricter than
// most file systems, which rename in one step.
const (
	Write Kind = "write" // Data is written at Offset of Node
	Size  Kind = "size"  // the size of Node becomes Offset, by cutting or by adding zeros
	Sync  Kind = "sync"  // the changes to Node are on the disk
	// Node gets the name Name. For a renamed folder, From is the old name; the folder's content
	// moves, too.
	Name    Kind = "name"
	Unname  Kind = "unname"  // the name Name is removed
	SyncDir Kind = "syncdir" // the names in the folder Name are on the disk
	Nothing Kind = "nothing" // replaces an event that a test has removed
)

// Folder is the value of Event.Node for every folder.
const Folder = -1

// Event is one change that a program has made.
type Event struct {
	Kind   Kind
	Node   int // number of a file, from 1, which does not change in a rename; or Folder
	Offset int64
	Data   []byte
	Name   string // path within the recorded folder, with slashes
	From   string // earlier name of a renamed folder
	// Covers is the number of events before a sync began. After the sync, only the changes of these
	// events are certainly on the disk. Other threads may write during the sync.
	Covers int
}
