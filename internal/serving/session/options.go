package session

import (
	"cmp"
	"fmt"
	"runtime"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Options of a Manager. A zero field selects its default.
type Options struct {
	// Store keeps the sessions. The Manager's caller closes it after Drain. Nil is a
	// storage.Memory. The states of a store that is not durable are never dropped from memory;
	// beyond MaxMemoryBytes new sessions are refused.
	Store storage.Store
	// Lease lets the Manager share the store, a storage.Shared, with other servers. It is nil if no
	// other server uses the store.
	Lease Lease
	// Others are models that sessions may ask for, besides the default. Their weights are in memory
	// while sessions in memory need them, and count in MaxMemoryBytes.
	Others []*model.Source
	// Report gets the errors that concern the operator and no single request: healed damage, failed
	// snapshots and deletions. It may be called at any time, and must not call the Manager. If
	// Report is nil, these errors are dropped.
	Report func(error)
	// Observer gets the Manager's events, for metrics and traces. It may be nil.
	Observer Observer
	// Importing gets the progress of an import after its file has arrived. It cannot tell
	// concurrent imports apart. It may be nil.
	Importing Progress

	// DiskBudget is how much of the disk the store may use, in bytes; 0 means all. DiskAlarm is
	// called when too little is left (see package disk), and with nil when there is room again. It
	// must not call the Manager. Both have no effect if the store is not a folder.
	DiskBudget int64
	DiskAlarm  func(why error)

	MaxSessions int // default: SessionsDefault
	// MaxMemoryBytes limits the states in memory, those of imports included, and the text of a
	// store that is not durable. Each worker needs stream.WorkerBytes more. Files that are packed
	// or parsed, at most one for each of Threads, need FileBytes each. Default: the machine's
	// memory divided by MemoryShareDefault.
	MaxMemoryBytes int64
	// ReplayMax is how much computing time a restart may need to recover a session: a snapshot is
	// taken when that is reached. Default: ReplayMaxDefault.
	ReplayMax time.Duration
	// ForkSnapshots is how many snapshots a session keeps besides the last two. They are spread
	// over its text, so that a fork at an old offset is quick. Computing the text between two of
	// them takes 4 seconds, or ReplayMax if that is less. A session with HistoryTail keeps none. A
	// store that is not durable, or that uses half of the disk, keeps none either. 0 means none.
	ForkSnapshots   int
	MaxSessionBytes int64 // bytes of text of one session; default: SessionTextBytesDefault
	MaxQueue        int   // requests that wait for a turn or a worker; default: QueueDefault
	// Threads is the number of workers, and of threads of each; see package scheduler. Default: the
	// number of processors.
	Threads int
}

// Validate returns a *FieldError for the first option that is out of range.
func (o Options) Validate() error {
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"max_sessions", int64(o.MaxSessions), SessionsMax},
		{"max_memory_bytes", o.MaxMemoryBytes, 1 << 50},
		{"disk_budget", o.DiskBudget, 1 << 50},
		{"max_session_bytes", o.MaxSessionBytes, 1 << 50},
		{"max_queue", int64(o.MaxQueue), QueueMax},
		{"fork_snapshots", int64(o.ForkSnapshots), ForkSnapshotsMax},
		{"replay_max", int64(o.ReplayMax), int64(24 * time.Hour)},
		{"threads", int64(o.Threads), ThreadsMax},
	} {
		if f.value < 0 || f.value > f.max {
			return &FieldError{f.name, fmt.Sprint(f.value), fmt.Sprintf("0 (the default) to %d",
				f.max)}
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.MaxSessions = cmp.Or(o.MaxSessions, SessionsDefault)
	if o.Store == nil {
		o.Store = storage.NewMemory()
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	o.MaxMemoryBytes = cmp.Or(o.MaxMemoryBytes, DefaultMemoryBytes())
	o.ReplayMax = cmp.Or(o.ReplayMax, ReplayMaxDefault)
	o.MaxSessionBytes = cmp.Or(o.MaxSessionBytes, SessionTextBytesDefault)
	o.MaxQueue = cmp.Or(o.MaxQueue, QueueDefault)
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	return o
}

// apart returns the computing time after which a snapshot is due, while a session has fewer
// snapshots than ForkSnapshots allows.
func (o Options) apart() time.Duration {
	if o.ForkSnapshots > 0 {
		return min(o.ReplayMax, forkReplay)
	}
	return o.ReplayMax
}

// DefaultMemoryBytes returns the default of Options.MaxMemoryBytes on this machine.
func DefaultMemoryBytes() int64 {
	if all := machineMemory(); all > 0 {
		return all / MemoryShareDefault
	}
	return MemoryBytesDefault
}

// MemoryMin returns the least MaxMemoryBytes with which one session with the model's default
// settings can do everything: have lines, learn by them, and be copied for a completion. A model of
// Options.Others needs its weights on top.
func MemoryMin(m *model.Model) (int64, error) {
	set, err := effective(m, nil)
	if err != nil {
		return 0, err
	}
	state := stream.StateBytes(m, set)
	return max((1+frozenMax)*state, state+stream.LinesBytes+stream.HeldBytes(m, set)), nil
}
