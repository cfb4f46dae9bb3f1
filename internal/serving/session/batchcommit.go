package session

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Commits reports whether text of the batch is appended to the session.
func (r *BatchRequest) Commits() bool { return commits(r.Commit) }

// checkBatchCommit returns an error if the batch's fields about the commit are invalid. id is the
// session that the batch continues, or "" if it continues none.
func checkBatchCommit(id string, r BatchRequest) error {
	if err := checkCommit(r.Commit); err != nil {
		return err
	}
	switch {
	case !r.Commits() && r.Offset != nil:
		return &FieldError{"offset", strconv.FormatInt(*r.Offset, 10), "no value without commit"}
	case !r.Commits():
		return nil
	case id == "":
		return &FieldError{"commit", strconv.Quote(r.Commit),
			CommitNone + " without a session"}
	case len(r.Prompts) > 1:
		return &FieldError{"prompt", fmt.Sprintf("%d prompts", len(r.Prompts)), "1 with commit"}
	case r.Commit == CommitAll && r.N > 1:
		return &FieldError{"n", fmt.Sprintf("%d texts", r.N), "1 with commit " + CommitAll}
	}
	return nil
}

// batchCommit runs a batch whose text is appended to the session. Meanwhile no other request can
// feed the session. Clients of OpenAI's API repeat failed requests. So batchCommit appends nothing
// until all texts are complete. Then it appends all text, even if the client has disconnected.
func (e *engine) batchCommit(
	ctx context.Context, s *session, r BatchRequest, emit func(Piece) error,
) error {
	if err := s.feedable(); err != nil {
		return err
	}
	end, err := e.beginFeeding(ctx, s, r.Wait)
	if err != nil {
		return err
	}
	defer end()
	if err := e.life.Enter(); err != nil {
		return err
	}
	defer e.life.Leave()
	if err := checkOffset(s, r.Offset); err != nil {
		return err
	}
	if err := e.roomFor(s, r.Prompts[0], r.Commit, r.MaxTokens); err != nil {
		return err
	}
	w := wholeTexts{request: &r, emit: emit}
	if err = e.batch(ctx, s, false, r, w.piece); err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	f := feeder{
		reports: reports{engine: e, s: s, emit: noChunks}, admitted: true, interrupts: true,
	}
	if err := f.all(ctx, w.committed()); err != nil {
		return err
	}
	offset := s.seen().offset
	w.last.Offset = &offset
	return emit(w.last)
}

// wholeTexts emits the pieces of a batch whose text is appended to the session. It holds back the
// finish reason of the last text until the session has the text.
type wholeTexts struct {
	request *BatchRequest
	emit    func(Piece) error
	text    []byte
	ended   int
	last    Piece
}

func (w *wholeTexts) piece(p Piece) error {
	if w.request.Commit == CommitAll {
		w.text = append(w.text, p.Text...)
	}
	if p.FinishReason == "" {
		return w.emit(p)
	}
	if w.ended++; w.ended < w.request.N {
		return w.emit(p)
	}
	w.last = Piece{Index: p.Index, FinishReason: p.FinishReason, Tokens: p.Tokens}
	if p.FinishReason, p.Tokens = "", 0; len(p.Text) == 0 && len(p.LogProbs) == 0 {
		return nil
	}
	return w.emit(p)
}

func (w *wholeTexts) committed() []byte {
	if w.request.Commit == CommitAll && w.request.Echo {
		return w.text // an echoed text begins with the prompt
	}
	return slices.Concat(w.request.Prompts[0], w.text)
}
