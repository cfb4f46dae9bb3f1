package answer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/contract"
)

func TestEventIsLineOrServerSentEvent(t *testing.T) {
	for media, want := range map[string]string{
		contract.MediaNDJSON: "{\"n\":1}\n{\"n\":2}\n",
		contract.MediaEventStream: "event: a\nid: 7\ndata: {\"n\":1}\n\nevent: b\ndata: " +
			"{\"n\":2}\n\n",
	} {
		w := httptest.NewRecorder()
		events := NewEventStream(w, media, NewProblems(zap.NewNop(), func(string) {}))
		require.NoError(t, events.Send("a", 7, map[string]int{"n": 1}))
		require.NoError(t, events.Send("b", NoID, map[string]int{"n": 2}))
		require.Equal(t, want, w.Body.String())
		require.Equal(t, media, w.Header().Get("Content-Type"))
		require.True(t, w.Flushed)
	}
}

func TestStreamFailsWithEventOnlyAfterItHasBegun(t *testing.T) {
	ctx := WithRequestID(context.Background(), "my-id")
	problems := NewProblems(zap.NewNop(), func(string) {})
	w := httptest.NewRecorder()
	events := NewEventStream(w, contract.MediaNDJSON, problems)
	require.ErrorIs(t, events.Fail(ctx, session.ErrBusy), session.ErrBusy)
	require.Empty(t, w.Body.String())

	require.NoError(t, events.Send("a", NoID, 1))
	require.NoError(t, events.Fail(ctx, session.ErrBusy))
	require.Contains(t, w.Body.String(), `"type":"`+string(api.ProblemSessionBusy)+`"`)
	require.Contains(t, w.Body.String(), `"request_id":"my-id"`)

	left, leave := context.WithCancel(ctx)
	leave()
	require.ErrorIs(t, events.Fail(left, session.ErrBusy), session.ErrBusy)

	gone := NewEventStream(deaf{httptest.NewRecorder()}, contract.MediaNDJSON, problems)
	require.ErrorIs(t, gone.Send("a", NoID, 1), io.ErrClosedPipe)
	require.ErrorIs(t, gone.Fail(ctx, session.ErrBusy), session.ErrBusy)
}

// deaf is the writer of a client that has left.
type deaf struct{ http.ResponseWriter }

func (deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestFileBeginsWithItsFirstByte(t *testing.T) {
	w := httptest.NewRecorder()
	file := NewFile(t.Context(), w, "a.zst")
	require.Empty(t, w.Header())
	_, err := io.WriteString(file, "bytes")
	require.NoError(t, err)
	require.Equal(t, `attachment; filename="a.zst"`, w.Header().Get("Content-Disposition"))
	require.Equal(t, "bytes", w.Body.String())
}

func TestLateProblemCutsConnection(t *testing.T) {
	problems := NewProblems(zap.NewNop(), func(string) {})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := httptest.NewRecorder()
	problems.Answer(&Recorder{ResponseWriter: w}, r, errors.New("disk on fire"))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), "disk")

	begun := &Recorder{ResponseWriter: httptest.NewRecorder()}
	begun.WriteHeader(http.StatusOK)
	require.PanicsWithValue(t, http.ErrAbortHandler,
		func() { problems.Answer(begun, r, session.ErrBusy) })
}
