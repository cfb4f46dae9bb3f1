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

// Manager keeps the sessions of its models in a store, and the states of those in use in memory.
// Its methods are safe for concurrent use. Drain ends its threads.
//
// Each part has its own lock: the index knows all sessions, the engine computes on one session, and
// the lifecycle decides whether work may begin.
type Manager struct {
	about       []ModelInfo // descriptions of the models, the default first
	index       *index
	engine      *engine
	follower    *follower
	life        *lifecycle.Lifecycle
	backups     *backups
	subscribers subscribers
	last        sync.Once // the work after the Manager has drained

	watchIdle time.Duration // the constant WatchIdle; tests set it
}

// NewManager returns a Manager for the sessions in the store. m is the default model; requests may
// ask for one of Options.Others.
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

// assemble makes the parts of a Manager and connects them.
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

// Holds reports whether this server has the session with this id. Requests for the session then
// belong to this server.
func (mg *Manager) Holds(id string) bool { return mg.index.catalog.has(id) }

// HandOver gives this server's sessions to other servers. It claims and makes no more sessions
// (ErrElsewhere). It releases its own sessions one by one, with a snapshot where another server
// would recompute much. A request that feeds ends after its chunk. A Watch ends with ErrDraining.
// HandOver waits for completions. When the context ends, sessions that are left become free once
// the server has left.
func (mg *Manager) HandOver(ctx context.Context) { mg.index.catalog.handOver(ctx) }

// Models describes the models that sessions run on, the default first.
func (mg *Manager) Models() []ModelInfo {
	all := make([]ModelInfo, len(mg.about))
	for i := range mg.about {
		all[i] = mg.describe(i)
	}
	return all
}

// Model describes the default model.
func (mg *Manager) Model() ModelInfo { return mg.describe(0) }

// describe describes a model as it is now.
func (mg *Manager) describe(at int) ModelInfo {
	m := mg.about[at].clone()
	m.Loaded = mg.engine.models[at].current() != nil
	return m
}

// ModelOf describes the model that a session runs on. If that model is not served, or no session is
// named, it describes the default model. The error is ErrNotFound.
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
// feed it. It does not count as a use: a TTL that is already over ends the session at once. The
// errors are a *FieldError, a *NameTakenError, and those of a write to the session.
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

// DiskAlarm returns a *DiskAlarmError while the disk is nearly full, else nil.
func (mg *Manager) DiskAlarm() error { return mg.engine.disk.Alarm() }

// Get describes a session, without waiting for requests that work on it.
func (mg *Manager) Get(who Caller, id string) (Info, error) {
	return mg.index.get(context.Background(), who, id)
}

// List describes up to limit sessions that the caller sees. A limit of 0 means ListDefault; the
// largest is ListMax. The sessions are in the order of their ids, which is the order of creation.
// With labels it lists only the sessions that have all of them. It starts after an id. next is
// where the next page starts, or "" on the last page. A page by label may be short.
func (mg *Manager) List(
	who Caller, after string, limit int, labels ...Label,
) (page []Info, next string, err error) {
	if limit < 1 {
		limit = ListDefault
	}
	mg.index.sweep()
	return mg.index.catalog.list(who, after, min(limit, ListMax), labels)
}

// Delete removes a session and all of its data. A request that works on it ends with ErrNotFound
// after its chunk.
func (mg *Manager) Delete(who Caller, id string) error { return mg.index.delete(who, id) }

// Score feeds text to a session as it arrives: the bytes that the body has ready, up to the end of
// the chunk, are scored at once. emit gets each report in order, before the update that the text
// causes. Text that emit got is in the session, whatever happens then.
//
// One request at a time feeds a session. Others wait in order, for at most their wait, and then get
// ErrBusy. Score ends with the body, or with emit's error. Between two chunks it may end with the
// context, ErrNotFound, ErrDraining, a *BodyError, a *LimitError, ErrFull, a *DiskLimitError, a
// *DiskAlarmError, ErrUnavailable or ErrUnknown. With *OffsetError or ErrBusy nothing of the body
// was read; with ErrOverloaded nothing was accepted. A *RecoveringError, which is an ErrOverloaded,
// says that the recovery of the state takes long; the next call continues it. The Summary says what
// was accepted, also with an error.
//
// With LearnFalse the session is unchanged. The text is received first, at most UnlearntBytesMax
// (*TooLongError). While it is scored, the session takes no other text.
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
	if err := s.cutDelivery(ctx, 0); err != nil {
		return Summary{}, err
	}
	f := feeder{
		reports: mg.reporting(s, o, emit), maxWait: max(mg.engine.scoreRecovery, o.Wait),
	}
	if err = f.body(ctx, body); err == nil {
		err = f.restOfLines(ctx)
	}
	mg.index.touch(s)
	f.finish(begun)
	return f.sum, err
}

// reporting returns the reports of a score request.
func (mg *Manager) reporting(s *session, o ScoreOptions, emit func(Chunk) error) reports {
	return reports{engine: mg.engine, s: s, options: o, want: o.detail(), emit: emit}
}

// dryRun runs a score request that learns nothing.
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
	err = r.run(ctx, in, o.Offset)
	mg.index.touch(s)
	r.finish(begun)
	return r.sum, err
}

// Complete samples text after the session's text and the prompt, from the adapted model or the
// static one. emit gets each piece of the text. The session is unchanged unless the request
// commits. Meanwhile it takes no other text. A completion that commits feeds the session, and gets
// ErrBusy if another request does.
//
// It ends with emit's error, the context, ErrNotFound, and at its beginning ErrOverloaded.
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
	if err := s.feedable(); err != nil && r.commits() {
		return Completion{}, err
	}
	if err := mg.life.Enter(); err != nil {
		return Completion{}, err
	}
	defer mg.life.Leave()
	end, err := mg.engine.beginCommit(ctx, s, r)
	if err != nil {
		return Completion{}, err
	}
	defer end()
	defer mg.index.touch(s)
	return mg.engine.complete(ctx, s, r, emit)
}

// Suggest returns likely continuations of the session's text and the typed text after it. The
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

// CompleteBatch samples texts as Complete does, several after each of several prompts. Without an
// id it continues an empty text. emit gets one text after another; with Echo the texts after one
// prompt begin together. The errors are those of Complete, ErrFull and *OffsetError.
//
// The session is unchanged unless the request commits. Then it takes the prompt, or prompt and
// text, after emit got all texts. It takes nothing if emit fails or the context ends before that.
// The last piece follows, with the session's new offset.
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
	if err := mg.life.Enter(); err != nil {
		return err
	}
	defer mg.life.Leave()
	if id != "" {
		defer mg.index.touch(s)
	}
	if r.Commits() {
		return mg.engine.batchCommit(ctx, s, r, emit)
	}
	return mg.engine.batch(ctx, s, id == "", r, emit)
}

// grounds returns the session that a batch continues, or a blank one of a model. The caller calls
// done.
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

// Fork makes a session of the caller that has the text of another up to an offset, and is
// independent from there on. It returns a *FieldError for an offset that the other session lacks,
// and a *TrimmedError for an offset whose text was trimmed. Other errors are a *NameTakenError, and
// those of Create.
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

// Export writes a session as an archive, a tar file of package folder, which Import reads. It makes
// the archive in a temporary file (ErrNoSpace), so that a slow w delays nobody. It writes nothing
// to w before all errors other than w's are known.
//
// The archive of a damaged session has the text that can be read, and part is called before w is
// written to. Without part, or if nothing can be read, the error is an *UnusableError. For the wait
// see engine.maxWaitOf.
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

// Import makes a session of the caller from an archive that Export wrote. It has a new id and the
// given name, "" for none. The error is ErrImport for an archive that is not whole, or of another
// model (a *ModelError). Other errors are a *NameTakenError, a *BodyError, ErrNoSpace without room
// for the temporary file, and those of Create. Checking the state needs memory, for which Import
// waits; the error is ErrFull if there can never be enough.
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

// Backup opens a backup of the store. The caller must be an admin, unless the server has no keys;
// other callers get ErrAdminOnly. With an id it reopens that backup, or returns ErrBackupGone.
// Without an id it makes a new backup, and ends a backup that nobody reads. The error is
// ErrBackupBusy if the other backup is being made or read. A store in memory returns ErrNoBackup.
func (mg *Manager) Backup(ctx context.Context, who Caller, id string) (*Backup, error) {
	if who.Key != "" && !who.Admin {
		return nil, ErrAdminOnly
	}
	return mg.backups.open(ctx, id)
}

// Drain refuses new work, waits for current chunks and completions, and ends the threads. A request
// that feeds ends with ErrDraining after its chunk. A backup ends at once, and a Watch after the
// last chunk. Then Drain takes snapshots, so that the next start recomputes little. When the
// context ends, work under way continues, and the threads end after it. Sessions can still be
// described and deleted.
func (mg *Manager) Drain(ctx context.Context) error {
	mg.backups.close()
	mg.index.catalog.end()
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
	mg.subscribers.end(ErrDraining) // before the snapshots, which may take long
	mg.last.Do(func() { mg.engine.saveAll(ctx) })
	return nil
}
