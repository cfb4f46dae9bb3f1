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

// Options of a Manager. A zero field stands for its default.
type Options struct {
	// Store keeps the sessions; the Manager's caller closes it after Drain. Nil is a
	// storage.Memory. The states of a store that is not durable are never dropped from memory:
	// beyond MaxMemoryBytes there are no more.
	Store storage.Store
	// Lease lets the Manager share the store, a storage.Shared, with those of other servers. Nil:
	// the Manager has the store alone.
	Lease Lease
	// Others are models that sessions may ask for, beside the one that is for those that ask for
	// none. Their weights are in memory as long as sessions in memory need them, and take of
	// MaxMemoryBytes.
	Others []*model.Source
	// Report is told of what a person should know and no request is to blame for: damage that was
	// healed, sessions that could not be snapshotted or deleted. It may be called at any time, and
	// must not call the Manager. Nil: nobody is told.
	Report func(error)
	// Observer is told what the Manager does, for metrics and traces. Nil: nobody is told.
	Observer Observer
	// Importing is told how far an import is, when its file is there. Nil: nobody is told. Where
	// imports may meet, it cannot tell them apart.
	Importing Progress

	// DiskBudget is how much of the disk the store may take, in bytes; 0: all there is. DiskAlarm
	// is called when too little is left, see package disk, and with nil when there is room again.
	// It must not call the Manager. Both mean nothing where the store is no folder.
	DiskBudget int64
	DiskAlarm  func(why error)

	MaxSessions int // SessionsDefault
	// MaxMemoryBytes bounds the states in memory, those of imports included, and the text of a
	// store that is not durable. Workers (stream.WorkerBytes each) and files that are packed or
	// parsed (FileBytes each, one for each of Threads at most) come on top. Default: a
	// MemoryShareDefault-th of the machine's memory.
	MaxMemoryBytes int64
	// ReplayMax is the computing that a restart may have to repeat for a session: a snapshot is
	// taken when there is so much. ReplayMaxDefault.
	ReplayMax time.Duration
	// ForkSnapshots is how many snapshots a session keeps beside the last two, spread over its
	// text, so that a fork far back has little to compute: between two lies the computing of 4
	// seconds, or of ReplayMax if that is less. None are kept of a tail, where the store is not
	// durable, or beyond half of the disk. 0: none.
	ForkSnapshots   int
	MaxSessionBytes int64 // text of one session; SessionTextBytesDefault
	MaxQueue        int   // requests that wait for a session's turn or a worker; QueueDefault
	// Threads is the number of workers, and of threads of each, see package scheduler. The default
	// is the number of processors.
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

// apart is the computing after which a snapshot is due, as long as there are not all that may be
// kept for forks.
func (o Options) apart() time.Duration {
	if o.ForkSnapshots > 0 {
		return min(o.ReplayMax, forkReplay)
	}
	return o.ReplayMax
}

// DefaultMemoryBytes is the default of Options.MaxMemoryBytes on this machine.
func DefaultMemoryBytes() int64 {
	if all := machineMemory(); all > 0 {
		return all / MemoryShareDefault
	}
	return MemoryBytesDefault
}

// MemoryMin is the least MaxMemoryBytes with which one session that has the model's default
// settings can do all that a session does: have lines, learn by them, and be copied for a
// completion. For one of Options.Others there have to be its weights beside.
func MemoryMin(m *model.Model) (int64, error) {
	set, err := effective(m, nil)
	if err != nil {
		return 0, err
	}
	state := stream.StateBytes(m, set)
	return max((1+frozenMax)*state, state+stream.LinesBytes+stream.HeldBytes(m, set)), nil
}
