package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/suggest"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/tokenizer"
)

// fakeSessions is a small session manager. Its model counts the bytes in full chunks. Scores are
// deterministic, and do not depend on how the text was split into requests.
type fakeSessions struct {
	max int // largest number of live sessions
	// fail, if not nil, is the error of Fork and Backup. Score and Complete return fail after their
	// first event, ScoreTexts after the first text, and Export at its end.
	fail       error
	delivering error // error of Deliver; if nil, Deliver scores
	boom       bool  // Get panics, and Score panics after the first chunk.
	full       bool

	exporting int           // number of bytes that Export appends after the session
	part      *session.Part // the part of a session that Export reports; nil: the whole session

	mu       sync.Mutex
	n        int
	sessions map[string]*fakeSession
	draining bool
	tight    error // the error of DiskAlarm, or nil
	asked    session.CreateRequest
	forked   session.ForkRequest
	patched  session.PatchRequest
	waited   time.Duration
	held     map[string]chan struct{} // keyed by session id; see the method hold
	running  sync.WaitGroup
}

type fakeSession struct {
	feeding sync.Mutex
	busy    atomic.Bool // true while a request holds the mutex feeding
	mu      sync.Mutex
	info    session.Info
	text    []byte
	counts  [256]float64 // number of occurrences of each byte value in the full chunks
}

func newFake() *fakeSessions {
	return &fakeSessions{max: 100, sessions: map[string]*fakeSession{},
		held: map[string]chan struct{}{}}
}

func (f *fakeSessions) Create(_ context.Context, who session.Caller,
	r session.CreateRequest) (session.Info, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = r
	if f.draining {
		return session.Info{}, session.ErrDraining
	}
	owned := 0
	for _, s := range f.sessions {
		if s.info.Owner == who.Key {
			owned++
		}
	}
	if who.MaxSessions > 0 && owned >= who.MaxSessions {
		return session.Info{}, &session.QuotaError{Max: who.MaxSessions}
	}
	if len(f.sessions) >= f.max {
		return session.Info{}, session.ErrFull
	}
	if gammas, _ := r.Settings["gammas"].([]float32); len(gammas) > 1 {
		return session.Info{}, &session.FieldError{Field: "settings.gammas",
			Found: fmt.Sprintf("%d values", len(gammas)), Want: "1 value, for the one bank of " +
				"the model"}
	}
	f.n++
	s := &fakeSession{info: session.Info{
		ID: fmt.Sprintf("s-%04d", f.n), Model: "fake-0", Created: time.Now().UTC(),
		LastUsed: time.Now().UTC(),
		Settings: f.Model().Defaults, Seed: 7, Labels: r.Labels, TTL: r.TTL,
		History: cmp.Or(r.History, session.HistoryFull), MemoryBytes: 2048, Numerics: "fake",
		Owner: who.Key,
	}}
	for _, name := range []string{"chunk", "p", "baseline"} {
		if value, given := r.Settings[name]; given {
			s.info.Settings[name] = value
		}
	}
	if r.Seed != nil {
		s.info.Seed = *r.Seed
	}
	if r.Settings["baseline"] == true {
		s.info.BaselineBits = new(float64)
	}
	f.sessions[s.info.ID] = s
	return told(who, s.info), nil
}

// told hides the owner of a session from callers who are not admins.
func told(who session.Caller, i session.Info) session.Info {
	if !who.Admin {
		i.Owner = ""
	}
	return i
}

func (f *fakeSessions) find(who session.Caller, id string) (*fakeSession, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[id]; s != nil && (who.Admin || s.info.Owner == who.Key) {
		return s, nil
	}
	for _, s := range f.sessions {
		if s.info.Name == id && s.info.Owner == who.Key {
			return s, nil
		}
	}
	return nil, session.ErrNotFound
}

func (f *fakeSessions) Get(who session.Caller, id string) (session.Info, error) {
	if f.boom {
		panic("boom")
	}
	s, err := f.find(who, id)
	if err != nil {
		return session.Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return told(who, s.info), nil
}

func (f *fakeSessions) List(
	who session.Caller, after string, limit int, labels ...session.Label,
) (page []session.Info, next string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		if s.info.ID > after && (who.Admin || s.info.Owner == who.Key) &&
			hasLabels(s.info, labels) {
			page = append(page, told(who, s.info))
		}
	}
	slices.SortFunc(page, func(a, b session.Info) int { return strings.Compare(a.ID, b.ID) })
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	return page, next, nil
}

type fakeFile struct {
	Model  string
	Info   session.Info
	Text   []byte
	Counts [256]float64
}

func (f *fakeSessions) Export(
	_ context.Context, who session.Caller, id string, _ time.Duration, w io.Writer,
	part func(session.Part),
) error {
	s, leave, err := f.enter(who, id)
	if err != nil {
		return err
	}
	defer leave()
	if f.part != nil {
		part(*f.part)
	}
	if err := json.NewEncoder(w).Encode(fakeFile{"fake-0", s.info, s.text, s.counts}); err != nil {
		return err
	}
	for block := make([]byte, 64<<10); f.exporting > 0; f.exporting -= len(block) {
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return f.fail
}

// Backup always fails, because the fake sessions are only in memory.
func (f *fakeSessions) Backup(_ context.Context, who session.Caller, id string) (*session.Backup,
	error) {
	switch {
	case who.Key != "" && !who.Admin:
		return nil, session.ErrAdminOnly
	case f.fail != nil:
		return nil, f.fail
	case id != "":
		return nil, session.ErrBackupGone
	}
	return nil, session.ErrNoBackup
}

func (f *fakeSessions) Import(
	_ context.Context, who session.Caller, r io.Reader, name string,
) (session.Info, error) {
	if err := f.free(name); err != nil {
		return session.Info{}, err
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return session.Info{}, &session.BodyError{Offset: -1, Err: err}
	}
	var file fakeFile
	if err := json.Unmarshal(raw, &file); err != nil {
		return session.Info{}, fmt.Errorf("%w: %w", session.ErrImport, err)
	}
	if file.Model != "fake-0" {
		return session.Info{}, fmt.Errorf("%w: %w", session.ErrImport,
			&session.ModelError{Have: file.Model, Want: "fake-0"})
	}
	file.Info.Name = name
	return f.add(who, &fakeSession{info: file.Info, text: file.Text, counts: file.Counts}), nil
}

func (f *fakeSessions) Fork(_ context.Context, who session.Caller, id string,
	r session.ForkRequest) (session.Info, error) {
	s, leave, err := f.enter(who, id)
	if err != nil {
		return session.Info{}, err
	}
	defer leave()
	f.forked = r
	if f.fail != nil {
		return session.Info{}, f.fail
	}
	if err := f.free(r.Name); err != nil {
		return session.Info{}, err
	}
	if at := s.info.Offset; r.AtOffset != nil && *r.AtOffset != at {
		return session.Info{}, &session.FieldError{Field: "at_offset",
			Found: fmt.Sprint(*r.AtOffset), Want: fmt.Sprintf("%d to %d", at, at)}
	}
	fork := &fakeSession{info: s.info, text: bytes.Clone(s.text), counts: s.counts}
	fork.info.Parent = &session.Parent{ID: id, Offset: s.info.Offset}
	fork.info.Name, fork.info.Labels, fork.info.TTL = r.Name, r.Labels, r.TTL
	if r.History != "" {
		fork.info.History = r.History
	}
	return f.add(who, fork), nil
}

func (f *fakeSessions) add(who session.Caller, s *fakeSession) session.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	s.info.ID, s.info.Owner = fmt.Sprintf("s-%04d", f.n), who.Key
	f.sessions[s.info.ID] = s
	return told(who, s.info)
}

func (f *fakeSessions) DiskAlarm() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tight
}

func (f *fakeSessions) Delete(who session.Caller, id string) error {
	if _, err := f.find(who, id); err != nil {
		return err
	}
	if err := f.wait(context.Background(), id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions[id] == nil {
		return session.ErrNotFound
	}
	delete(f.sessions, id)
	return nil
}

// enter locks a session for one request, or returns the reason for a refusal. After success the
// caller must call leave.
func (f *fakeSessions) enter(who session.Caller, id string) (s *fakeSession, leave func(),
	err error) {
	if s, err = f.find(who, id); err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return nil, nil, session.ErrDraining
	}
	if f.full {
		return nil, nil, session.ErrOverloaded
	}
	if !s.feeding.TryLock() {
		return nil, nil, session.ErrBusy
	}
	f.running.Add(1)
	s.busy.Store(true)
	return s, func() { s.busy.Store(false); s.feeding.Unlock(); f.running.Done() }, nil
}

func (f *fakeSessions) Score(ctx context.Context, who session.Caller, id string, body io.Reader,
	o session.ScoreOptions, emit func(session.Chunk) error) (session.Summary, error) {
	f.waits(o.Wait)
	s, leave, err := f.enter(who, id)
	if err != nil {
		return session.Summary{}, err
	}
	defer leave()
	if o.Offset != nil && *o.Offset != s.info.Offset {
		return session.Summary{}, &session.OffsetError{Have: s.info.Offset, Want: *o.Offset}
	}
	start, sum := time.Now(), session.Summary{}
	if s.info.BaselineBits != nil {
		sum.BaselineBits = new(float64)
	}
	buf := make([]byte, s.info.Settings["chunk"].(int))
	for {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		if f.fail != nil && sum.Chunks > 0 {
			return sum, f.fail
		}
		n, err := body.Read(buf[:len(buf)-int(s.info.Offset)%len(buf)])
		if n > 0 {
			chunk := s.score(buf[:n], o.LogProbs)
			sum.Bytes, sum.Chars, sum.Tokens = sum.Bytes+int64(n), sum.Chars+int64(n),
				sum.Tokens+int64(n)
			sum.Bits += chunk.Bits
			if sum.BaselineBits != nil {
				*sum.BaselineBits += *chunk.BaselineBits
			}
			sum.Chunks++
			if err := emit(chunk); err != nil {
				return sum, err
			}
			if f.boom {
				panic("boom")
			}
			if err := f.wait(ctx, id); err != nil {
				return sum, err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return sum, &session.BodyError{Offset: s.info.Offset, Err: err}
		}
	}
	sum.Offset, sum.Updates, sum.Elapsed = s.info.Offset, s.info.Step, time.Since(start)
	sum.Total = s.info.Tally
	return sum, nil
}

// Deliver scores the text of a delivery. It does not remember keys, so a repeated delivery is
// scored again.
func (f *fakeSessions) Deliver(
	ctx context.Context, who session.Caller, id string, d session.Delivery, o session.ScoreOptions,
	emit func(session.Chunk) error,
) (session.Summary, error) {
	if f.delivering != nil {
		return session.Summary{}, f.delivering
	}
	sum, err := f.Score(ctx, who, id, bytes.NewReader(d.Text), o, emit)
	if errors.Is(err, session.ErrBusy) {
		err = session.ErrQueueFull
	}
	return sum, err
}

// Watch sends only the session's position.
func (f *fakeSessions) Watch(ctx context.Context, who session.Caller, id string,
	_ session.WatchOptions, emit func(session.Event) error) error {
	info, err := f.Get(who, id)
	if err != nil {
		return err
	}
	if err := emit(session.Event{Start: &session.WatchStart{Info: info}}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// Text returns a question mark for each requested byte of the text.
func (f *fakeSessions) Text(_ context.Context, who session.Caller, id string, offset,
	length int64) (session.TextPart, error) {
	info, err := f.Get(who, id)
	switch {
	case err != nil:
		return session.TextPart{}, err
	case offset > info.Offset:
		return session.TextPart{}, &session.OffsetError{Have: info.Offset, Want: offset}
	}
	text := bytes.Repeat([]byte("?"), int(min(length, info.Offset-offset)))
	return session.TextPart{Text: text, End: info.Offset}, nil
}

func (f *fakeSessions) Incidents(_ context.Context, who session.Caller,
	id string) (session.IncidentList, error) {
	_, err := f.find(who, id)
	return session.IncidentList{}, err
}

func (f *fakeSessions) GiveFeedback(ctx context.Context, who session.Caller, id string,
	_ session.FeedbackRequest) (session.IncidentList, error) {
	return f.Incidents(ctx, who, id)
}

func (f *fakeSessions) Scores(_ context.Context, who session.Caller, id string, _, _ int64,
	_ int) (session.History, error) {
	info, err := f.Get(who, id)
	h := session.History{Scores: []session.PastScore{{Tally: info.Tally, Time: info.LastUsed}}}
	h.Next, h.End = info.Offset, info.Offset
	return h, err
}

func (f *fakeSessions) waits(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waited = d
}

// hold makes Score, Complete and Delete of a session wait until release is called. Score and
// Complete wait after every chunk or piece, and Delete waits before its end.
func (f *fakeSessions) hold(id string) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make(chan struct{})
	f.held[id] = held
	return func() { close(held) }
}

func (f *fakeSessions) wait(ctx context.Context, id string) error {
	f.mu.Lock()
	held := f.held[id]
	f.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// score scores a text that lies within one chunk. It updates the counts when the chunk is full.
func (s *fakeSession) score(text []byte, logprobs bool) session.Chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, n := s.info.Settings["chunk"].(int), len(text)
	c := session.Chunk{
		Step: uint64(int(s.info.Offset) / size), Offset: s.info.Offset,
		Tally: session.Tally{Tally: tokenizer.Tally{
			Bytes: int64(n), Chars: int64(n), Tokens: int64(n),
		}},
		Updates: s.info.Step, Written: int64(s.info.Step) * 3, FastRMS: float64(s.info.Step) / 8,
		Elapsed: time.Millisecond,
	}
	total := 256 + float64(int(s.info.Step)*size)
	for _, b := range text {
		logprob := math.Log((1 + s.counts[b]) / total)
		c.Bits -= logprob / math.Ln2
		if logprobs {
			c.LogProbs = append(c.LogProbs, logprob)
		}
	}
	s.text = append(s.text, text...)
	s.info.Offset += int64(n)
	s.info.Bytes, s.info.Chars, s.info.Tokens = s.info.Bytes+c.Bytes, s.info.Chars+c.Chars,
		s.info.Tokens+c.Tokens
	s.info.Bits += c.Bits
	if s.info.BaselineBits != nil {
		bits, baseline := 8*float64(n), *s.info.BaselineBits+8*float64(n)
		c.BaselineBits, s.info.BaselineBits = &bits, &baseline
	}
	c.Total = s.info.Tally
	if s.info.Pending = int(s.info.Offset) % size; s.info.Pending == 0 {
		c.Complete = true
		for _, b := range s.text[len(s.text)-size:] {
			s.counts[b]++
		}
		s.info.Step++
		s.text = s.text[:0]
	}
	return c
}

// Complete returns the prompt, repeated up to MaxTokens bytes, as the sampled text.
func (f *fakeSessions) Complete(ctx context.Context, who session.Caller, id string,
	r session.CompleteRequest, emit func(session.Piece) error) (session.Completion, error) {
	f.waits(r.Wait)
	s, leave, err := f.enter(who, id)
	if err != nil {
		return session.Completion{}, err
	}
	defer leave()
	source := r.Prompt
	if len(source) == 0 {
		source = []byte("lorem ipsum ")
	}
	text := bytes.Repeat(source, r.MaxTokens/len(source)+1)[:r.MaxTokens]
	done := session.Completion{FinishReason: session.FinishLength, PromptTokens: len(r.Prompt),
		CompletionTokens: r.MaxTokens, Seed: 9}
	for _, stop := range r.Stop {
		if before, _, found := strings.Cut(string(text), stop); found {
			text, done.FinishReason, done.CompletionTokens = []byte(before), session.FinishStop,
				len(before)+len(stop)
		}
	}
	if r.Seed != nil {
		done.Seed = *r.Seed
	}
	for i := 0; i < len(text); i += 4 {
		if err := ctx.Err(); err != nil {
			return done, err
		}
		if f.fail != nil && i > 0 {
			return done, f.fail
		}
		piece := session.Piece{Text: text[i:min(i+4, len(text))]}
		if r.LogProbs {
			for range piece.Text {
				piece.LogProbs = append(piece.LogProbs, -1)
			}
		}
		if err := emit(piece); err != nil {
			return done, err
		}
		if err := f.wait(ctx, id); err != nil {
			return done, err
		}
	}
	if r.Commit == session.CommitPrompt || r.Commit == session.CommitAll {
		s.info.Offset += int64(len(r.Prompt))
	}
	if r.Commit == session.CommitAll {
		s.info.Offset += int64(len(text))
	}
	done.Text, done.Offset = text, s.info.Offset
	return done, nil
}

// Suggest suggests one text: the typed text and a period. It reports one row (a unit of work) for
// each typed byte, even if it returns an error.
func (f *fakeSessions) Suggest(_ context.Context, who session.Caller, id string,
	r session.SuggestRequest) (session.Suggested, error) {
	f.waits(r.Wait)
	s, leave, err := f.enter(who, id)
	if err != nil {
		return session.Suggested{Rows: len(r.Typed)}, err
	}
	defer leave()
	all := len(r.Refused) == 0
	return session.Suggested{Offset: s.info.Offset, Rows: len(r.Typed), Complete: all,
		Candidates: []suggest.Candidate{
			{Text: string(r.Typed) + ".", Probability: 0.5, Gain: float64(len(r.Typed))},
		}}, nil
}

// SuggestAfter calls Suggest with the prompt as the typed text. If id is empty, it uses a temporary
// session.
func (f *fakeSessions) SuggestAfter(ctx context.Context, who session.Caller, id, _ string,
	prompt []byte, r session.SuggestRequest) (session.Suggested, error) {
	if id == "" {
		info, err := f.Create(ctx, who, session.CreateRequest{})
		if err != nil {
			return session.Suggested{}, err
		}
		id = info.ID
		defer func() { _ = f.Delete(who, id) }()
	}
	r.Typed = prompt
	return f.Suggest(ctx, who, id, r)
}

// CompleteBatch calls Complete for each text. The only candidate for each token is the sampled
// token.
func (f *fakeSessions) CompleteBatch(ctx context.Context, who session.Caller, id string,
	r session.BatchRequest, emit func(session.Piece) error) error {
	if id == "" {
		info, err := f.Create(ctx, who, session.CreateRequest{})
		if err != nil {
			return err
		}
		id = info.ID
		defer func() { _ = f.Delete(who, id) }()
	}
	for i := range len(r.Prompts) * r.N {
		prompt := r.Prompts[i/r.N]
		tell := func(p session.Piece) error {
			p.Index = i
			for k, logProb := range p.LogProbs {
				p.Top = append(p.Top, []session.Candidate{{ID: int32(p.Text[k]), LogProb: logProb}})
			}
			return emit(p)
		}
		if r.Echo {
			p := session.Piece{Text: prompt}
			if r.LogProbs {
				p.LogProbs = slices.Repeat([]float64{-2}, len(prompt))
			}
			if err := tell(p); err != nil {
				return err
			}
		}
		one := session.CompleteRequest{Prompt: prompt, MaxTokens: r.MaxTokens, Seed: r.Seed,
			Stop: r.Stop, LogProbs: r.LogProbs}
		last := session.Piece{}
		if i == r.N-1 && r.Commits() {
			one.Commit, last.Offset = r.Commit, new(int64)
		}
		done, err := f.Complete(ctx, who, id, one, tell)
		if err == nil {
			last.FinishReason, last.Tokens = done.FinishReason, done.CompletionTokens
			if last.Offset != nil {
				*last.Offset = done.Offset
			}
			err = tell(last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeSessions) Model() session.ModelInfo {
	return session.ModelInfo{
		ID: "fake-0", Name: "fake", Created: time.Unix(1700000000, 0), Parameters: 256,
		Config: json.RawMessage(`{"vocab":256}`), Tokenizer: "bytes", Vocab: 256, Start: '\n',
		Banks: 1,
		Defaults: session.Settings{"method": session.MethodSparseMeta, "chunk": 16, "p": .5,
			"gammas": []float32{.999}, "beta1": float32(.5), "beta2": float32(.5)},
		Card: json.RawMessage(`{"data":"none"}`), Loaded: true, WeightsBytes: 1024,
		SessionBytes: 2048,
	}
}

// ScoreTexts scores each text in a temporary session.
func (f *fakeSessions) ScoreTexts(
	ctx context.Context, who session.Caller, r session.ScoreTextsRequest,
	emit func(session.ModelInfo, session.Summary) error,
) error {
	asked := session.CreateRequest{Model: r.Model, Settings: r.Settings, Seed: r.Seed}
	ignore := func(session.Chunk) error { return nil }
	for i, text := range r.Texts {
		if f.fail != nil && i > 0 {
			return f.fail
		}
		info, err := f.Create(ctx, who, asked)
		if err != nil {
			return err
		}
		from := bytes.NewReader(text)
		sum, err := f.Score(ctx, who, info.ID, from, session.ScoreOptions{}, ignore)
		if err := errors.Join(err, f.Delete(who, info.ID)); err != nil {
			return err
		}
		if err := emit(f.Model(), sum); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeSessions) Models() []session.ModelInfo { return []session.ModelInfo{f.Model()} }

func (f *fakeSessions) ModelOf(who session.Caller, id string) (session.ModelInfo, error) {
	if id == "" {
		return f.Model(), nil
	}
	_, err := f.find(who, id)
	return f.Model(), err
}

func (f *fakeSessions) Drain(ctx context.Context) error {
	f.mu.Lock()
	f.draining = true
	f.mu.Unlock()
	done := make(chan struct{})
	go func() { f.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
