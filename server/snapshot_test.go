package server

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/keys"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	"github.com/lmserve/lmserve/internal/serving/storage/folder"
	"github.com/lmserve/lmserve/server/contract"
	"github.com/lmserve/lmserve/server/limits"
	"github.com/lmserve/lmserve/server/problem"
)

func newFolderRig(t *testing.T, dir string, seed uint64, o Options, so session.Options) *rig {
	t.Helper()
	store, err := folder.Open(dir, folder.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	so.Store, so.Threads = store, 2
	sessions, err := session.NewManager(smallModel(t, seed), so)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return newRigOn(t, sessions, o, l, &http.Transport{})
}

func (g *rig) score(path, text string) api.SummaryEvent {
	g.t.Helper()
	return decode[api.SummaryEvent](g.t, g.text(path+"/score", text), http.StatusOK)
}

func (g *rig) get(path string) api.Session {
	g.t.Helper()
	return decode[api.Session](g.t, g.do("GET", path, nil), http.StatusOK)
}

func (g *rig) export(path string) []byte {
	g.t.Helper()
	raw, err := io.ReadAll(g.do("GET", path+"/snapshot", nil).Body)
	require.NoError(g.t, err)
	return raw
}

const someText = "2026-11-21T03:25:35.777Z INFO request GET /v1/sessions " +
	"200\n2026-11-21T03:25:35.779Z INFO request GET /v1/sessions 404\n"

func TestForkContinuesFromItsOffset(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create(`{"seed":3,"labels":{"a":"b"},"ttl_seconds":60,"history":"full"}`)
	g.score(path, someText)
	g.score(path, someText)
	want := g.score(g.create(`{"seed":3}`), someText[:70]+"another end").Totals

	resp := g.json(path+"/fork",
		`{"at_offset":70,"labels":{"c":"d"},"ttl_seconds":30,"history":"tail"}`)
	fork := decode[api.Session](t, resp, http.StatusCreated)
	at := "/v1/sessions/" + fork.ID
	require.Equal(t, at, resp.Header.Get("Location"))
	require.Equal(t, &api.Parent{ID: strings.TrimPrefix(path, "/v1/sessions/"), Offset: 70},
		fork.Parent)
	require.Equal(t, api.Labels{"c": "d"}, *fork.Labels)
	require.EqualValues(t, 30, fork.TTLSeconds)
	require.Equal(t, api.HistoryTail, *fork.History)
	require.EqualValues(t, 3, fork.Seed)
	require.Equal(t, want, g.score(at, "another end").Totals, "to the bit")

	whole := decode[api.Session](t, g.do("POST", path+"/fork", nil), http.StatusCreated)
	require.EqualValues(t, 2*len(someText), whole.Offset)
	require.Equal(t, api.HistoryFull, *whole.History)
	require.Nil(t, whole.Labels)
	require.Equal(t, g.get(path).Totals, whole.Totals)
	require.Equal(t, g.score(path, "x").Totals, g.score("/v1/sessions/"+whole.ID, "x").Totals)

	p := requireProblem(t, g.json(path+"/fork", fmt.Sprintf(`{"at_offset":%d}`, 2*len(someText)+2)),
		api.ProblemInvalidField)
	require.Equal(t, []string{"at_offset", fmt.Sprint(2*len(someText) + 2), fmt.Sprintf("0 to %d",
		2*len(someText)+1)}, []string{*p.Field, *p.Found, *p.Expected})
}

func TestTrimmedOffsetIsGone(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{ReplayMax: 1})
	path := g.create(`{"history":"tail"}`)
	g.score(path, someText)
	g.score(path, someText)
	p := requireProblem(t, g.json(path+"/fork", `{"at_offset":3}`), api.ProblemHistoryTrimmed)
	require.Equal(t, "at_offset", *p.Field)
	require.Regexp(t, fmt.Sprintf(`^\d+ to %d$`, 2*len(someText)), *p.Expected)
	p = requireProblem(t, g.json(path+"/fork", `{"history":"full"}`), api.ProblemInvalidField)
	require.Equal(t, "history", *p.Field)
}

func TestSnapshotIsImportedByHolderOfFile(t *testing.T) {
	ring := newTestKeys(t, keys.Key{Name: "giver"}, keys.Key{Name: "taker"}, keys.Key{Name: "admin",
		Admin: true}, keys.Key{Name: "small", Limits: keys.Limits{Sessions: 1}})
	g, h := newFolderRig(t, t.TempDir(), 1, Options{Keys: ring.Ring}, session.Options{}),
		newFolderRig(t, t.TempDir(), 1, Options{Keys: ring.Ring}, session.Options{})
	g.key = ring.token["giver"]
	path :=
		g.create(
			`{"seed":3,"labels":{"a":"b"},"ttl_seconds":60,"history":"tail",` +
				`"settings":{"baseline":true}}`)
	g.score(path, someText)
	id := strings.TrimPrefix(path, "/v1/sessions/")

	resp := g.do("GET", path+"/snapshot", nil)
	require.Equal(t, contract.MediaTar, resp.Header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="`+id+`.tar"`, resp.Header.Get("Content-Disposition"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	file, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "sessions/"+id+"/head", string(bytes.TrimRight(file[:100], "\x00")))
	require.Equal(t, file, g.export(path), "the same state gives the same file")
	requireProblem(t, g.do("GET", path+"/snapshot", nil, "Accept", contract.MediaJSON),
		api.ProblemNotAcceptable)

	was := g.get(path)
	for n, to := range []*rig{g, h} {
		to.key = ring.token["taker"]
		media := []string{"Content-Type", contract.MediaTar}
		if n == 1 {
			media = nil
		}
		resp := to.do("POST", "/v1/sessions/import", bytes.NewReader(file), media...)
		made := decode[api.Session](t, resp, http.StatusCreated)
		at := "/v1/sessions/" + made.ID
		require.Equal(t, at, resp.Header.Get("Location"))
		require.NotEqual(t, id, made.ID)
		is := made
		is.ID, is.CreatedAt, is.LastUsedAt, is.MemoryBytes = was.ID, was.CreatedAt, was.LastUsedAt,
			was.MemoryBytes
		is.DiskBytes = was.DiskBytes
		require.Equal(t, was, is)
		require.Equal(t, http.StatusOK, to.do("GET", at, nil).StatusCode)
		requireProblem(t, to.do("GET", at, nil, "Authorization", "Bearer "+ring.token["giver"]),
			api.ProblemSessionNotFound)
		admins := decode[api.Session](t, to.do("GET", at, nil, "Authorization", "Bearer "+
			ring.token["admin"]), http.StatusOK)
		require.Equal(t, ring.id["taker"], *admins.Owner)
		g.key = ring.token["giver"]
		want := decode[api.Session](t, g.do("POST", path+"/fork", nil), http.StatusCreated)
		totals := g.score("/v1/sessions/"+want.ID, "and on").Totals
		to.key = ring.token["taker"]
		require.Equal(t, totals, to.score(at, "and on").Totals, "to the bit")
	}
	h.key = ring.token["small"]
	require.Equal(t, http.StatusCreated, h.do("POST", "/v1/sessions/import",
		bytes.NewReader(file)).StatusCode)
	requireProblem(t, h.do("POST", "/v1/sessions/import", bytes.NewReader(file)),
		api.ProblemKeySessionLimit)
}

func TestBadImportMakesNothing(t *testing.T) {
	g := newFolderRig(t, t.TempDir(), 1, Options{}, session.Options{})
	path := g.create(`{}`)
	g.score(path, someText)
	file := g.export(path)
	const to = "/v1/sessions/import"
	damaged := bytes.Clone(file)
	damaged[len(file)-1] ^= 1
	for what, body := range map[string][]byte{"damaged": damaged, "cut": file[:len(file)-1],
		"longer": append(bytes.Clone(file), 'x'), "empty": nil, "text": []byte(someText)} {
		require.NotEmpty(t, *requireProblem(t, g.do("POST", to, bytes.NewReader(body)),
			api.ProblemImportDamaged).Detail, what)
	}
	other := newFolderRig(t, t.TempDir(), 2, Options{}, session.Options{})
	p := requireProblem(t, other.do("POST", to, bytes.NewReader(file)), api.ProblemImportModel)
	require.Equal(t, []string{"model", g.get(path).Model}, []string{*p.Field, *p.Found})
	require.Equal(t, decode[api.ModelList](t, other.do("GET", "/v1/models", nil), 200).Data[0].ID,
		*p.Expected)

	requireProblem(t, g.do("POST", to, bytes.NewReader(file), "Content-Type", "image/png"),
		api.ProblemUnsupportedMediaType)
	requireProblem(t, g.json(to, "{}"), api.ProblemUnsupportedMediaType)
	stalled, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = w.Write(file[:20]) }()
	// Only this server has a short idle limit, because other bodies may pause that long on a busy
	// machine.
	impatient := newFolderRig(t, t.TempDir(), 1, Options{BodyIdleMax: 300 * time.Millisecond},
		session.Options{})
	requireProblem(t, impatient.do("POST", to, stalled), api.ProblemBodyTimeout)
	require.Empty(t, decode[api.SessionList](t, impatient.do("GET", "/v1/sessions", nil),
		http.StatusOK).Sessions)
	r, err := http.NewRequest("POST", g.url+to, io.NopCloser(bytes.NewReader(file[:40])))
	require.NoError(t, err)
	r.ContentLength = 100
	short, err := (&http.Client{Transport: cutTransport{g.addr}}).Do(r)
	require.NoError(t, err)
	defer short.Body.Close()
	requireProblem(t, short, api.ProblemBodyIncomplete)
	r, err = http.NewRequest("POST", g.url+to, io.NopCloser(bytes.NewReader(file)))
	require.NoError(t, err)
	r.ContentLength = limits.ImportBodyBytesMax + 1
	long, err := (&http.Client{Transport: cutTransport{g.addr}}).Do(r)
	require.NoError(t, err)
	defer long.Body.Close()
	require.Equal(t, "at most "+strconv.Itoa(limits.ImportBodyBytesMax), *requireProblem(t, long,
		api.ProblemBodyTooLarge).Expected)
	require.Len(t, decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil),
		http.StatusOK).Sessions, 1)
}

// The server cuts the connection, so that a partial file does not look complete.
func TestFailingSnapshotIsCutOff(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	g.fake.fail = fmt.Errorf("disk on fire")
	g.fake.sessions["s-0001"].text = make([]byte, 1<<20)
	resp, err := g.plain.Get(g.url + path + "/snapshot")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// Response headers, each one line of ASCII, say that the exported file is partial.
func TestPartialSessionSaysSo(t *testing.T) {
	g := newRig(t, Options{})
	path := g.create("{}")
	whole := g.do("GET", path+"/snapshot", nil)
	require.Empty(t, whole.Header.Get("Lmserve-Part"))
	require.Empty(t, whole.Header.Get("Lmserve-Damage"))
	g.fake.part = &session.Part{Start: 3, End: 10, Known: 12, Err: errors.New("lost:\nthe ½")}
	part := g.do("GET", path+"/snapshot", nil)
	require.Equal(t, http.StatusOK, part.StatusCode)
	require.Equal(t, "bytes 3-9/12", part.Header.Get("Lmserve-Part"))
	require.Equal(t, "lost: the  ", part.Header.Get("Lmserve-Damage")+strings.Repeat(" ", 2))
	require.Equal(t, `attachment; filename="s-0001.part.tar"`,
		part.Header.Get("Content-Disposition"))
}

func TestDamagedSessionIsListedAndNamed(t *testing.T) {
	dir := t.TempDir()
	var path, good string
	t.Run("before", func(t *testing.T) {
		g := newFolderRig(t, dir, 1, Options{}, session.Options{ReplayMax: 1})
		path, good = g.create(`{"history":"tail"}`), g.create(`{}`)
		g.score(path, someText)
	})
	files, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "state.*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		require.NoError(t, os.Truncate(file, 10))
	}
	core, logs := observer.New(zap.ErrorLevel)
	g := newFolderRig(t, dir, 1, Options{Log: zap.New(core)}, session.Options{})
	for what, resp := range map[string]*http.Response{
		"score": g.text(path+"/score", "x"), "complete": g.json(path+"/complete", "{}"),
		"snapshot": g.do("GET", path+"/snapshot", nil),
	} {
		p := requireProblem(t, resp, api.ProblemSessionUnusable)
		require.Equal(t, filepath.ToSlash(strings.TrimPrefix(files[1], dir+"/")), p.Damage.File,
			what)
		require.NotNil(t, p.Damage.Offset, what)
		require.Contains(t, *p.Detail, "10 bytes, expected", what)
		require.NotContains(t, *p.Detail, dir, what)
	}
	require.Equal(t, 3, logs.FilterMessage("request failed").Len())
	require.Len(t, decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil),
		http.StatusOK).Sessions, 2)
	require.Equal(t, http.StatusNoContent, g.do("DELETE", path, nil).StatusCode)
	g.score(good, "x")
}

func TestSessionWithoutHeadIsListed(t *testing.T) {
	dir := t.TempDir()
	store, err := folder.Open(dir, folder.Options{})
	require.NoError(t, err)
	_, err = store.Create(t.Context(), "broken", []byte("no head"), 0)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	var file []byte
	t.Run("another model's", func(t *testing.T) {
		g := newFolderRig(t, dir, 1, Options{}, session.Options{})
		path := g.create(`{"history":"tail"}`)
		g.score(path, someText)
		file = g.export(path)
	})
	require.NotEmpty(t, file)
	g := newFolderRig(t, dir, 2, Options{}, session.Options{})
	list := decode[api.SessionList](t, g.do("GET", "/v1/sessions", nil), http.StatusOK).Sessions
	require.Len(t, list, 2)
	other, broken := list[0], list[1]
	require.Equal(t, "broken", broken.ID)
	require.Nil(t, broken.Settings)
	require.Contains(t, *broken.Error, "head")
	require.Contains(t, *other.Error, "the session's model is small-")
	require.Equal(t, api.MethodSparseMeta, other.Settings.Method)
	require.EqualValues(t, len(someText), other.Offset)
	for _, s := range list {
		path := "/v1/sessions/" + s.ID
		for _, resp := range []*http.Response{g.text(path+"/score", "x"),
			g.json(path+"/fork", "{}"), g.do("GET", path+"/snapshot", nil)} {
			require.Nil(t, requireProblem(t, resp, api.ProblemSessionUnusable).Damage)
		}
		require.Equal(t, *s.Error, *g.get(path).Error)
		require.Equal(t, http.StatusNoContent, g.do("DELETE", path, nil).StatusCode)
	}
}

// Every exported error of package session has a problem type; a new error needs a row here.
func TestEveryErrorOfSessionsHasItsProblem(t *testing.T) {
	field := session.FieldError{Field: "f", Found: "1", Want: "2"}
	damage := &storage.CorruptError{File: "sessions/a/head", Byte: 7, Offset: 9}
	table := map[string]struct {
		err  error
		kind api.ProblemType
	}{
		"ErrNotFound":    {session.ErrNotFound, api.ProblemSessionNotFound},
		"ErrBusy":        {session.ErrBusy, api.ProblemSessionBusy},
		"ErrQueueFull":   {session.ErrQueueFull, api.ProblemSessionQueueFull},
		"ErrFull":        {session.ErrFull, api.ProblemSessionLimit},
		"ErrOverloaded":  {session.ErrOverloaded, api.ProblemOverloaded},
		"ErrImport":      {fmt.Errorf("%w: why", session.ErrImport), api.ProblemImportDamaged},
		"ErrNoSpace":     {session.ErrNoSpace, api.ProblemNoSpace},
		"ErrDraining":    {session.ErrDraining, api.ProblemDraining},
		"ErrUnavailable": {fmt.Errorf("%w: why", session.ErrUnavailable), api.ProblemOverloaded},
		"ErrElsewhere":   {fmt.Errorf("%w: why", session.ErrElsewhere), api.ProblemOverloaded},
		"ErrUnknown":     {fmt.Errorf("%w: why", session.ErrUnknown), api.ProblemInternal},
		"ErrAdminOnly":   {session.ErrAdminOnly, api.ProblemAdminOnly},
		"ErrBackupBusy":  {session.ErrBackupBusy, api.ProblemBackupBusy},
		"ErrBackupGone":  {session.ErrBackupGone, api.ProblemBackupGone},
		"ErrNoBackup":    {session.ErrNoBackup, api.ProblemNoBackup},
		"UnusableError":  {&session.UnusableError{Err: damage}, api.ProblemSessionUnusable},
		"ModelError": {fmt.Errorf("%w: %w", session.ErrImport, &session.ModelError{}),
			api.ProblemImportModel},
		"ModelLoadError": {&session.ModelLoadError{ID: "m-0", Err: io.EOF},
			api.ProblemModelUnavailable},
		"OffsetError":  {&session.OffsetError{}, api.ProblemOffsetConflict},
		"FieldError":   {&field, api.ProblemInvalidField},
		"TrimmedError": {&session.TrimmedError{FieldError: field}, api.ProblemHistoryTrimmed},
		"DifferError": {&session.DifferError{Fields: []session.FieldError{field}},
			api.ProblemSessionDiffers},
		"NameTakenError":  {&session.NameTakenError{Name: "n"}, api.ProblemNameTaken},
		"LimitError":      {&session.LimitError{}, api.ProblemSessionFull},
		"TooLongError":    {&session.TooLongError{}, api.ProblemBodyTooLarge},
		"QuotaError":      {&session.QuotaError{}, api.ProblemKeySessionLimit},
		"DiskLimitError":  {&session.DiskLimitError{}, api.ProblemKeyDiskLimit},
		"DiskAlarmError":  {&session.DiskAlarmError{}, api.ProblemNoSpace},
		"RecoveringError": {&session.RecoveringError{}, api.ProblemOverloaded},
		"BodyError": {&session.BodyError{Offset: -1, Err: io.ErrUnexpectedEOF},
			api.ProblemBodyIncomplete},
		"ShadowError": {&session.ShadowError{}, api.ProblemSessionShadow},
		// The session manager gives this error only to Options.Report, so no client sees it.
		"MismatchError": {&session.MismatchError{}, api.ProblemInternal},
	}
	require.ElementsMatch(t, exportedErrors(t, "../internal/serving/session"),
		slices.Collect(maps.Keys(table)))
	for name, row := range table {
		require.Equal(t, row.kind, problem.Of(fmt.Errorf("somewhere: %w", row.err)).Type, name)
		p := problem.Of(row.err)
		if p.Detail != nil {
			require.NotContains(t, *p.Detail, "session: ", name)
		}
	}
	p := problem.Of(&session.UnusableError{Err: damage})
	require.Equal(t, api.Damage{File: "sessions/a/head", Byte: &damage.Byte,
		Offset: &damage.Offset}, *p.Damage)
	require.Nil(t, problem.Of(&session.UnusableError{Err: &session.ModelError{}}).Damage)

	limit := problem.Of(&session.DiskLimitError{Used: 90, Limit: 100})
	require.EqualValues(t, 90, *limit.UsedBytes)
	require.EqualValues(t, 100, *limit.LimitBytes)
}

// exportedErrors lists the package's ErrX variables and XError types.
func exportedErrors(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		//nolint:staticcheck // one file's own names are enough
		for name, object := range file.Scope.Objects {
			if ast.IsExported(name) && (strings.HasPrefix(name, "Err") && object.Kind == ast.Var ||
				strings.HasSuffix(name, "Error") && object.Kind == ast.Typ) {
				names = append(names, name)
			}
		}
	}
	return names
}
