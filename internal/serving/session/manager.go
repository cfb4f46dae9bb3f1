package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/serving/session/budget"
	"github.com/lmserve/lmserve/internal/serving/session/lifecycle"
	"github.com/lmserve/lmserve/internal/serving/session/registry"
	"github.com/lmserve/lmserve/internal/serving/session/scheduler"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

// Manager manages the sessions of its models. It keeps them in a store, and the states of active
// sessions in memory. Its methods are safe for concurrent use. Drain ends its threads.
//
// Its parts have separate locks: the index finds sessions, the engine computes, and the lifecycle
// decides whether work may begin.
type Manager struct {
	about       []ModelInfo
	index       *index
	engine      *engine
	follower    *follower
	life        *lifecycle.Lifecycle
	backups     *backups
	subscribers subscribers
	last        sync.Once

	watchIdle time.Duration
}

// NewManager returns a Manager for the sessions in the store. Parameter m is the default model.
// Requests may name a model in Options.Others instead.
func NewManager(m *model.Model, o Options) (*Manager, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	served := models{residentModel(m)}
	for _, other := range o.Others {
		served = append(served, sourcedModel(other))
	}
	if err := served.check(); err != nil {
		return nil, err
	}
	mg, err := assemble(served, o.withDefaults())
	if err != nil {
		return nil, err
	}
	for _, m := range served {
		about, err := modelInfo(m.Model, m.size())
		if err != nil {
			return nil, err
		}
		about.Created = mg.engine.clock.now().UTC()
		mg.about = append(mg.about, about)
	}
	if err := mg.index.catalog.load(context.Background()); err != nil {
		return nil, err
	}
	mg.life.Serve()
	mg.follower.begin()
	mg.index.catalog.begin(mg.subscribers.cut)
	return mg, nil
}

func assemble(served models, o Options) (*Manager, error) {
	h := &host{
		store: o.Store, lease: &lease{Lease: o.Lease, own: o.Lease == nil},
		budget: budget.New[*session](budget.Options{
			Max: o.MaxMemoryBytes, Keeps: !o.Store.Durable(),
		}),
		scheduler: scheduler.New(served[0].Model, o.Threads),
		disk:      newGuard(o), clock: &clock{read: time.Now},
		snapshots: snapshotRules{
			max: o.ForkSnapshots, apart: o.apart(), rarest: o.ReplayMax,
			slots: make(chan struct{}, o.Threads),
		},
		observer: o.Observer, logError: o.Report,
	}
	ix := &index{
		host: h, models: served, registry: registry.New[*session](o.MaxSessions),
		max: o.MaxSessions,
	}
	ix.catalog = ownCatalog{ix}
	if h.lease.own {
		h.lease.Lease = ownLease{}
	} else if store, ok := o.Store.(storage.Shared); ok {
		ix.catalog = &sharedCatalog{index: ix, shared: store}
	} else {
		return nil, errors.New("session: found a server lease with a private store, expected a " +
			"store that servers share")
	}
	h.budget.GiveUp, h.prefixes = (*session).evict, newPrefixes(h.budget)
	h.gone, h.claimed = ix.remove, ix.catalog.claimed
	h.life = lifecycle.New(h.lease.err, h.scheduler.Close)
	h.scheduler.Live = served.live
	for _, m := range served {
		m.memory = h.budget.NewBase(m.comes(), m.drop)
		m.forget, m.observer = h.scheduler.Forget, o.Observer
	}
	e := &engine{
		host: h, models: served, waiting: queue{max: o.MaxQueue}, textMax: o.MaxSessionBytes,
		packing: make(chan struct{}, max(1, o.Threads/2)), imports: o.Importing,
		scoreRecovery: scoreRecovery, forkRecovery: forkRecovery,
	}
	follower := newFollower(e, ix, o.Threads)
	h.grown = follower.grown
	return &Manager{
		life: h.life, backups: &backups{store: o.Store, logError: o.Report}, watchIdle: WatchIdle,
		index: ix, engine: e, follower: follower,
	}, nil
}

// Holds reports whether this server has claimed the session with this id. Requests for the session
// must then go to this server.
func (mg *Manager) Holds(id string) bool { return mg.index.catalog.has(id) }

// HandOver releases this server's sessions, so that other servers can claim them. From then on,
// this server claims and makes no sessions; requests that need this fail with ErrElsewhere.
// HandOver first writes a snapshot of a session whose recovery would take long.
//
// A request that feeds a session ends after its current chunk, and a Watch ends with ErrDraining.
// HandOver waits for completions. If the context ends early, the remaining sessions become free
// when this server leaves the cluster.
func (mg *Manager) HandOver(ctx context.Context) { mg.index.catalog.handOver(ctx) }

// Models describes the served models, the default model first.
func (mg *Manager) Models() []ModelInfo {
	all := make([]ModelInfo, len(mg.about))
	for i := range mg.about {
		all[i] = mg.describe(i)
	}
	return all
}

// Model describes the default model.
func (mg *Manager) Model() ModelInfo { return mg.describe(0) }

func (mg *Manager) describe(at int) ModelInfo {
	m := mg.about[at].clone()
	m.Loaded = mg.engine.models[at].current() != nil
	return m
}

// ModelOf describes the model of a session. If id is "", or the session's model is not served, it
// describes the default model. The only error is ErrNotFound.
func (mg *Manager) ModelOf(who Caller, id string) (ModelInfo, error) {
	if id == "" {
		return mg.Model(), nil
	}
	s, err := mg.index.catalog.find(who, id)
	if err != nil {
		return ModelInfo{}, err
	}
	at := max(0, slices.Index(mg.engine.models, s.model))
	return mg.describe(at), nil
}

// Patch changes the name, the labels and the TTL of a session, without waiting for requests that
// feed it. Patch does not count as a use, so a TTL that has already passed ends the session at
// once. The errors are a *FieldError, a *NameTakenError, and the errors of a write to the session.
func (mg *Manager) Patch(
	ctx context.Context, who Caller, id string, r PatchRequest,
) (Info, error) {
	s, done, err := mg.index.use(who, id)
	if err != nil {
		return Info{}, err
	}
	defer done()
	if err := mg.life.Enter(); err != nil {
		return Info{}, err
	}
	defer mg.life.Leave()
	amend := func() error { return mg.index.amend(ctx, s, r) }
	if r.Detach && s.shadowOf() != "" {
		err = mg.follower.detach(ctx, s, amend)
	} else {
		err = amend()
	}
	if err != nil {
		return Info{}, err
	}
	return mg.index.info(who, s), nil
}

// DiskAlarm returns a *DiskAlarmError while the disk is nearly full, and otherwise nil.
func (mg *Manager) DiskAlarm() error { return mg.engine.disk.Alarm() }

// Get describes a session, without waiting for other requests to the session.
func (mg *Manager) Get(who Caller, id string) (Info, error) {
	return mg.index.get(context.Background(), who, id)
}

// List describes up to limit sessions that the caller may see, ordered by id and so by time of
// creation. The limit is at most ListMax; 0 means ListDefault. With labels, List returns only
// sessions that have all these labels, and a page may be shorter than the limit. The page starts
// after the id in parameter `after`. Result next is the value of after for the next page, or ""
// after the last page.
func (mg *Manager) List(
	who Caller, after string, limit int, labels ...Label,
) (page []Info, next string, err error) {
	if limit < 1 {
		limit = ListDefault
	}
	mg.index.sweep()
	return mg.index.catalog.list(who, after, min(limit, ListMax), labels)
}

// Delete removes a session with all of its data. Other requests to the session fail with
// ErrNotFound after their current chunk.
func (mg *Manager) Delete(who Caller, id string) error { return mg.index.delete(who, id) }

// Score feeds text to a session as it arrives. It scores available bytes at once, at most up to the
// end of the chunk. It calls emit with each report in order, before the model learns from the
// reported text. Text that was passed to emit is stored in the session, even if Score then fails.
//
// Only one request at a time feeds a session. Other requests wait in order of arrival; a request
// whose maximum wait has passed gets ErrBusy. Score returns when the body ends or emit fails.
// Between two chunks, Score may also return the context's error, ErrNotFound, ErrDraining, a
// *BodyError, a *LimitError, ErrFull, a *DiskLimitError, a *DiskAlarmError, ErrUnavailable or
// ErrUnknown.
//
// After an *OffsetError or ErrBusy, Score has read nothing of the body. After ErrOverloaded, Score
// has accepted no text. A *RecoveringError, which is also an ErrOverloaded, means that the recovery
// of the state takes long; the next call continues the recovery. The Summary describes the accepted
// text, also after an error.
//
// With LearnFalse, the session is unchanged. Score first receives the whole text; if the text
// exceeds UnlearntBytesMax, the error is a *TooLongError. While Score scores this text, the session
// accepts no other text.
func (mg *Manager) Score(
	ctx context.Context, who Caller, id string, body io.Reader, o ScoreOptions,
	emit func(Chunk) error,
) (Summary, error) {
	begun := time.Now()
	s, done, err := mg.index.use(who, id)
	if err != nil {
		return Summary{}, err
	}
	defer done()
	if err := checkLearn(s, o); err != nil {
		return Summary{}, err
	}
	if o.Learn == LearnFalse {
		return mg.dryRun(ctx, s, body, o, emit)
	}
	if err := s.feedable(); err != nil {
		return Summary{}, err
	}
	attended := o.attend()
	end, err := mg.engine.beginFeeding(ctx, s, o.Wait)
	attended()
	if err != nil {
		return Summary{}, err
	}
	defer end()
	if err := checkOffset(s, o.Offset); err != nil {
		return Summary{}, err
	}
	f := feeder{
		reports: mg.reporting(s, o, emit), maxWait: max(mg.engine.scoreRecovery, o.Wait),
		interrupts: true,
	}
	if err = f.body(ctx, body); err == nil {
		err = f.restOfLines(ctx)
	}
	mg.index.touch(s)
	f.finish(begun)
	return f.sum, err
}

func (mg *Manager) reporting(s *session, o ScoreOptions, emit func(Chunk) error) reports {
	return reports{engine: mg.engine, s: s, options: o, want: o.detail(), emit: emit}
}

func (mg *Manager) dryRun(
	ctx context.Context, s *session, body io.Reader, o ScoreOptions, emit func(Chunk) error,
) (Summary, error) {
	begun := time.Now()
	if err := checkOffset(s, o.Offset); err != nil {
		return Summary{}, err
	}
	r := dryRun{reports: mg.reporting(s, o, emit)}
	text, err := r.receive(body)
	if err != nil {
		return Summary{}, err
	}
	defer text.Close()
	in, err := text.Reader()
	if err != nil {
		return Summary{}, err
	}
	if err := mg.life.Enter(); err != nil {
		return Summary{}, err
	}
	defer mg.life.Leave()
	err = r.run(ctx, in, o.Offset, begun)
	mg.index.touch(s)
	return r.sum, err
}

// Complete samples text that follows the session's text and the prompt, from the adapted model or
// the static model. It calls emit with each piece of the text. Meanwhile the session accepts no
// other text. The session is unchanged unless the request commits. If it commits, Complete feeds
// the session, and returns ErrBusy if another request is feeding it.
//
// The error is emit's error, the context's error, ErrNotFound or, before the first piece,
// ErrOverloaded.
func (mg *Manager) Complete(
	ctx context.Context, who Caller, id string, r CompleteRequest, emit func(Piece) error,
) (Completion, error) {
	s, done, err := mg.index.use(who, id)
	if err != nil {
		return Completion{}, err
	}
	defer done()
	if err := cmp.Or(checkCompletion(r), checkFrom(s, r)); err != nil {
		return Completion{}, err
	}
	if err := s.feedable(); err != nil && commits(r.Commit) {
		return Completion{}, err
	}
	end, err := mg.engine.beginCommit(ctx, s, r)
	if err != nil {
		return Completion{}, err
	}
	defer end()
	if err := mg.life.Enter(); err != nil {
		return Completion{}, err
	}
	defer mg.life.Leave()
	defer mg.index.touch(s)
	return mg.engine.complete(ctx, s, r, emit)
}

// Suggest returns likely continuations of the session's text followed by the typed text. The
// session is unchanged. The errors are a *FieldError, and those of Complete.
func (mg *Manager) Suggest(
	ctx context.Context, who Caller, id string, r SuggestRequest,
) (Suggested, error) {
	s, done, err := mg.index.use(who, id)
	if err != nil {
		return Suggested{}, err
	}
	defer done()
	if err := checkSuggest(s, r); err != nil {
		return Suggested{}, err
	}
	if err := mg.life.Enter(); err != nil {
		return Suggested{}, err
	}
	defer mg.life.Leave()
	defer mg.index.touch(s)
	return mg.engine.suggest(ctx, s, r)
}

// CompleteBatch samples texts as Complete does, several texts for each of several prompts. Without
// an id, the texts continue an empty session. CompleteBatch calls emit with one text after another.
// If Echo is set, each text begins with its prompt; emit gets these beginnings before the sampled
// text. The errors are those of Complete, ErrFull and *OffsetError.
//
// The session is unchanged unless the request commits. If the request commits, CompleteBatch feeds
// the prompt, or the prompt and the text, to the session after emit got all texts. If emit fails or
// the context ends earlier, the session is unchanged. The last piece contains the session's new
// offset.
func (mg *Manager) CompleteBatch(
	ctx context.Context, who Caller, id string, r BatchRequest, emit func(Piece) error,
) error {
	s, done, err := mg.grounds(who, id, r.Model)
	if err != nil {
		return err
	}
	defer done()
	if err := cmp.Or(checkBatch(s.model.Tokenizer, r), checkBatchCommit(id, r)); err != nil {
		return err
	}
	if r.Commits() {
		defer mg.index.touch(s)
		return mg.engine.batchCommit(ctx, s, r, emit)
	}
	if err := mg.life.Enter(); err != nil {
		return err
	}
	defer mg.life.Leave()
	if id != "" {
		defer mg.index.touch(s)
	}
	return mg.engine.batch(ctx, s, id == "", r, emit)
}

// grounds returns the session that a batch continues or, without an id, an empty session. The
// caller must call done.
func (mg *Manager) grounds(
	who Caller, id, modelName string,
) (s *session, done func(), err error) {
	if id == "" {
		m, err := mg.engine.models.named(modelName)
		if err != nil {
			return nil, nil, err
		}
		if s, err = mg.index.blank(who, m); err != nil {
			return nil, nil, err
		}
		return s, s.end, nil
	}
	return mg.index.use(who, id)
}

// Fork makes a new session, which belongs to the caller. The new session has the text of another
// session up to an offset, and is independent afterwards. The error is a *FieldError for an offset
// beyond the other session's text, and a *TrimmedError for an offset whose text was trimmed. Other
// errors are a *NameTakenError, and those of Create.
func (mg *Manager) Fork(ctx context.Context, who Caller, id string, r ForkRequest) (Info, error) {
	s, done, err := mg.index.use(who, id)
	if err != nil {
		return Info{}, err
	}
	defer done()
	if err := mg.life.Enter(); err != nil {
		return Info{}, err
	}
	defer mg.life.Leave()
	like := CreateRequest{Labels: r.Labels, TTL: r.TTL, History: r.History}
	if err := cmp.Or(checkRequest(like), checkNameOrNone(r.Name)); err != nil {
		return Info{}, err
	}
	if err := mg.index.mayMake(who); err != nil {
		return Info{}, err
	}
	f := fork{engine: mg.engine, index: mg.index, from: s}
	return f.run(ctx, who, r)
}

// Export writes a session as an archive, which Import reads. An archive is a tar file in the format
// of package folder. Export first makes the archive in a temporary file, so that a slow writer does
// not block the session. It writes to w only after all other steps have succeeded. The error is
// ErrNoSpace if the disk has no room for the temporary file.
//
// The archive of a damaged session contains only the readable text. Export calls part with a
// description of this text before it writes to w. If part is nil, or no text is readable, the error
// is an *UnusableError. Parameter `wait` limits the wait for the recovery of the session's state,
// but not below 30 seconds; 0 means no limit.
func (mg *Manager) Export(
	ctx context.Context, who Caller, id string, wait time.Duration, w io.Writer, part func(Part),
) error {
	s, done, err := mg.index.useAny(who, id)
	if err != nil {
		return err
	}
	defer done()
	err = s.unusable()
	if err == nil {
		err = mg.engine.export(w, func(archive io.Writer) error {
			return mg.engine.exportWhole(ctx, s, wait, archive)
		})
	}
	if part != nil && touched(err) {
		err = mg.engine.export(w, func(archive io.Writer) error {
			return mg.engine.exportPart(ctx, s, archive, part)
		})
	}
	return SpoolError(err)
}

// Import makes a session of the caller from an archive that Export wrote. The session gets a new
// id, and the given name if that is not "". The error is ErrImport if the archive is damaged, or if
// its model is not served (a *ModelError). Other errors are a *NameTakenError, a *BodyError,
// ErrNoSpace if the disk has no room for a temporary file, and those of Create.
//
// To check the state, Import waits for memory. The error is ErrFull if the memory limit is too
// small for the state.
func (mg *Manager) Import(
	ctx context.Context, who Caller, r io.Reader, name string,
) (Info, error) {
	if err := checkNameOrNone(name); err != nil {
		return Info{}, err
	}
	if err := mg.life.Enter(); err != nil {
		return Info{}, err
	}
	defer mg.life.Leave()
	if err := mg.index.mayMake(who); err != nil {
		return Info{}, err
	}
	info, err := mg.importArchive(ctx, who, r, name)
	return info, SpoolError(err)
}

// Backup returns a backup of the store. The caller must be an admin, unless the server has no keys;
// otherwise the error is ErrAdminOnly. With an id, Backup reopens the existing backup, or returns
// ErrBackupGone. Without an id, it makes a new backup and ends an existing one. The error is
// ErrBackupBusy if the existing backup is still being made or read. It is ErrNoBackup if the store
// is in memory.
func (mg *Manager) Backup(ctx context.Context, who Caller, id string) (*Backup, error) {
	if who.Key != "" && !who.Admin {
		return nil, ErrAdminOnly
	}
	return mg.backups.open(ctx, id)
}

// Drain shuts the Manager down: it refuses new work, waits for current chunks and completions, and
// ends the threads. A request that feeds a session ends with ErrDraining after its current chunk. A
// backup ends at once, and a Watch after the last chunk. Then Drain writes snapshots, so that the
// next start recomputes little.
//
// If the context ends first, work in progress continues, and the threads end after it. Sessions can
// still be described and deleted after Drain.
func (mg *Manager) Drain(ctx context.Context) error {
	mg.backups.close()
	mg.index.catalog.end(ctx)
	mg.follower.stop()
	drained := mg.life.Drain()
	defer mg.subscribers.end(ErrDraining)
	select {
	case <-drained:
	default:
		select {
		case <-drained:
		case <-ctx.Done():
			return fmt.Errorf("session: shutdown did not finish in time, because chunks are "+
				"still being computed: %w", ctx.Err())
		}
	}
	mg.subscribers.end(ErrDraining) // before the snapshots, because these may take long
	mg.last.Do(func() { mg.engine.saveAll(ctx) })
	return nil
}
