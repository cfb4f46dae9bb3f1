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
// All its methods may be called at once. Drain ends its threads.
//
// Its parts each have a lock of their own: the index knows which sessions there are, the engine
// works on one, the lifecycle says whether anything may begin.
type Manager struct {
	about       []ModelInfo // of the models, the default first
	index       *index
	engine      *engine
	follower    *follower
	life        *lifecycle.Lifecycle
	backups     *backups
	subscribers subscribers
	last        sync.Once // what is done when the Manager has drained

	watchIdle time.Duration // the constant of that name; tests set it
}

// NewManager returns a Manager of the sessions that the store has. The model is that of sessions
// that ask for none; Options.Others may be asked for.
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

// assemble makes the parts of a Manager and hands each what it needs.
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
		return nil, errors.New("session: a lease is given, expected a store that servers can share")
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

// Holds reports whether this server has a session, by its id, so that requests for the session are
// for this server.
func (mg *Manager) Holds(id string) bool { return mg.index.catalog.has(id) }

// HandOver gives this server's sessions to the others. It claims and makes none from now on
// (ErrElsewhere), and frees its own one after another, with a snapshot where another server would
// have much to compute. A request that feeds ends after its chunk, Watch with ErrDraining;
// completions are waited for. What the context leaves out is free when the server has left.
func (mg *Manager) HandOver(ctx context.Context) { mg.index.catalog.handOver(ctx) }

// Models describe the models that sessions run on, the default first.
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

// ModelOf describes the model that a session runs on, or that would run on it: of one whose model
// is not served, and where no session is named, that is the default. The error is ErrNotFound.
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

// Patch changes the name of a session, its labels, and when it expires, without waiting for
// requests that feed it. It is no use of the session: a TTL that has run out already ends it at
// once. The errors are a *FieldError, a *NameTakenError, and those of a write to the session.
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

// DiskAlarm is a *DiskAlarmError while there is too little room left on the disk; nil: there is
// enough.
func (mg *Manager) DiskAlarm() error { return mg.engine.disk.Alarm() }

// Get describes a session, without waiting for what is at work on it.
func (mg *Manager) Get(who Caller, id string) (Info, error) {
	return mg.index.get(context.Background(), who, id)
}

// List describes up to limit sessions that the caller sees (0: ListDefault; at most ListMax), in
// the order of ids, which is that of creation; with labels those that have all of them. It starts
// after an id; next is the id for the next page, "" on the last. A page by label may be short.
func (mg *Manager) List(
	who Caller, after string, limit int, labels ...Label,
) (page []Info, next string, err error) {
	if limit < 1 {
		limit = ListDefault
	}
	mg.index.sweep()
	return mg.index.catalog.list(who, after, min(limit, ListMax), labels)
}

// Delete removes a session with everything that was ever kept for it. A request that is at work on
// it ends with ErrNotFound after its chunk.
func (mg *Manager) Delete(who Caller, id string) error { return mg.index.delete(who, id) }

// Score feeds text to a session as it comes: what the body has at hand, up to the end of the chunk,
// is scored at once. emit gets each report in order, before the update that the text causes. What
// emit got is in the session, whatever happens then.
//
// One request at a time feeds a session; others wait in order, as long as they may, and then get
// ErrBusy. Score ends with the body, with emit's error, and between two chunks with the context,
// ErrNotFound, ErrDraining, a *BodyError, a *LimitError, ErrFull, a *DiskLimitError, a
// *DiskAlarmError, ErrUnavailable or ErrUnknown. With *OffsetError or ErrBusy nothing of the body
// was read; with ErrOverloaded nothing was accepted. A *RecoveringError, which is an ErrOverloaded,
// says that the state takes long to compute again; the next call continues that. The Summary tells
// what was accepted, also beside an error.
//
// With LearnFalse the session stays as it was. The text is received first, at most UnlearntBytesMax
// (*TooLongError); while it is scored, the session takes no other text.
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
	if err := s.cutDelivery(ctx); err != nil {
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

// reporting are the reports of a score request.
func (mg *Manager) reporting(s *session, o ScoreOptions, emit func(Chunk) error) reports {
	return reports{engine: mg.engine, s: s, options: o, want: o.detail(), emit: emit}
}

// dryRun carries out a score request that learns nothing.
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
// static one. The session stays as it was unless the request commits. emit gets each piece of the
// text. Meanwhile the session takes no other text; a completion that commits is a feeder, and gets
// ErrBusy beside another.
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

// Suggest looks for what may come next behind the session's text and what was typed behind it. The
// session stays as it was. The errors are a *FieldError, and those of Complete.
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

// CompleteBatch samples texts as Complete does, after several prompts and several after each.
// Without an id it continues an empty text. emit gets the texts one after the other; with Echo the
// texts after a prompt begin together. The errors are those of Complete, ErrFull and *OffsetError.
//
// The session stays as it was unless the request commits. Then the session takes the prompt, or
// prompt and text, when emit has had all of the texts. It takes nothing if emit fails or the
// context ends before. The last piece follows, and has the session's new offset.
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

// grounds finds the session that a batch continues, or makes a blank one of a model. done must
// follow.
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

// Fork makes a session that has the text of another up to an offset, and goes its own way from
// there. It belongs to the caller. It returns a *FieldError for an offset that the other does not
// have (a *TrimmedError: any more), a *NameTakenError, and what Create does.
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

// Export writes a session as an archive, a tar file of package folder, which Import reads. The
// archive is made in a temporary file (ErrNoSpace), so that a slow w holds up nobody. Nothing is
// written before an error but one of w.
//
// Of a damaged session the archive has what can be read, and part is called before w is written to;
// without part, or if nothing can be read, the error is an *UnusableError. For the wait see
// engine.maxWaitOf.
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

// Import makes a session of the caller of what Export wrote, with a new id and the name given, ""
// for none. Its error is a *NameTakenError; ErrImport for an archive that is not whole, or of
// another model (a *ModelError); a *BodyError; ErrNoSpace without room for the temporary file; and
// what Create returns. Checking the state takes memory, for which Import waits; ErrFull where
// waiting is of no use.
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

// Backup opens a backup of the store for an admin, or without keys for the one owner; others get
// ErrAdminOnly. With an id it opens that backup again, or returns ErrBackupGone. Without one it
// makes a backup and ends one that nobody reads; ErrBackupBusy if somebody does. A store in memory
// has ErrNoBackup.
func (mg *Manager) Backup(ctx context.Context, who Caller, id string) (*Backup, error) {
	if who.Key != "" && !who.Admin {
		return nil, ErrAdminOnly
	}
	return mg.backups.open(ctx, id)
}

// Drain refuses new work, waits for chunks and completions under way, and ends the threads. A
// request that feeds ends with ErrDraining after its chunk, a backup at once, a Watch after the
// last chunk. Then it takes snapshots, so that the next start has little to compute. What is under
// way when the context ends goes on, and the threads end with it. Sessions can still be described
// and deleted.
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
			return fmt.Errorf("session: drain: chunks are still under way: %w", ctx.Err())
		}
	}
	mg.subscribers.end(ErrDraining) // before the snapshots, which may take a while
	mg.last.Do(func() { mg.engine.saveAll(ctx) })
	return nil
}
