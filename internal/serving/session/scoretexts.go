package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// ScoreTextsRequest asks for the scores of several texts, each scored independently.
type ScoreTextsRequest struct {
	Model    string
	Settings Settings
	Seed     *uint64  // seed of the update masks, the same for every text; nil means 0
	Texts    [][]byte // at most TextsMax, at least one
}

// TextsMax is the maximum number of texts per call of ScoreTexts.
const TextsMax = 1024

// ScoreTexts scores each text as a new session would, with bit-identical results, and keeps no
// session. It scores several texts at once, one per thread. It calls emit with the model and each
// summary, in the order of the texts. It does so while other texts are still being scored, and
// scoring does not wait for emit. The errors are those of Create and of Score.
func (mg *Manager) ScoreTexts(
	ctx context.Context, who Caller, r ScoreTextsRequest, emit func(ModelInfo, Summary) error,
) error {
	if n := len(r.Texts); n < 1 || n > TextsMax {
		return &FieldError{"texts", strconv.Itoa(n) + " texts", fmt.Sprintf("1 to %d", TextsMax)}
	}
	p, err := mg.planOf(ctx, who, CreateRequest{Model: r.Model, Settings: r.Settings, Seed: r.Seed})
	if err != nil {
		return err
	}
	defer p.done()
	if p.set.Seed = 0; r.Seed != nil {
		p.set.Seed = *r.Seed
	}
	if err := mg.life.Enter(); err != nil {
		return err
	}
	defer mg.life.Leave()
	admitted := false
	if err := mg.engine.waiting.wait(who.Key, &admitted, ctx.Err); err != nil {
		return err
	}
	scores := textScores{mg: mg, who: who, plan: p, texts: r.Texts}
	of := mg.describe(slices.Index(mg.engine.models, p.model))
	return scores.run(ctx, func(sum Summary) error { return emit(of, sum) })
}

type textScores struct {
	mg    *Manager
	who   Caller
	plan  sessionPlan
	texts [][]byte
}

func (t *textScores) run(ctx context.Context, emit func(Summary) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	done := make([]chan Summary, len(t.texts))
	for i := range done {
		done[i] = make(chan Summary, 1)
	}
	var next atomic.Int64
	for range min(t.mg.engine.scheduler.Threads(), len(t.texts)) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(t.texts) {
					return nil
				}
				sum, err := t.score(ctx, t.texts[i])
				if err != nil {
					return err
				}
				done[i] <- sum
			}
		})
	}
	err := inOrder(ctx, done, emit)
	if err != nil {
		cancel()
	}
	failed := group.Wait()
	if failed != nil && errors.Is(err, context.Canceled) {
		return failed
	}
	return err
}

func inOrder(ctx context.Context, done []chan Summary, emit func(Summary) error) error {
	for _, ready := range done {
		select {
		case sum := <-ready:
			if err := emit(sum); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// score scores a text with a temporary session, which is neither in the store nor in the registry.
func (t *textScores) score(ctx context.Context, text []byte) (Summary, error) {
	begun := time.Now()
	s, err := t.mg.index.fresh(t.who, "", t.plan.model, t.plan.set, CreateRequest{})
	if err != nil {
		return Summary{}, err
	}
	defer s.end()
	if err := s.openBlank(ctx, 0); err != nil {
		return Summary{}, err
	}
	defer s.unlock()
	r := dryRun{reports: t.mg.reporting(s, ScoreOptions{}, noChunks), admitted: true, blank: true}
	if err := r.readLocked(ctx, s.stream, bytes.NewReader(text)); err != nil {
		return Summary{}, err
	}
	s.publishLocked()
	r.finish(begun)
	return r.sum, nil
}
