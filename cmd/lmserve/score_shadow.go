package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/api/client"
)

const shadowPoll = 50 * time.Millisecond

func (k *scoring) checkShadow() error {
	switch {
	case k.shadow == "":
		return nil
	case k.session != "":
		return usagef("--shadow-model and --session are both given, expected one of them: the " +
			"totals would include other text; to compare over time, make a shadow session with " +
			"PUT (docs/guide.md)")
	case k.learn == string(client.LearnFalse):
		return usagef("--shadow-model is given with --learn false, expected learning: the second " +
			"model reads only text that the session accepts")
	}
	return nil
}

// withShadow creates a shadow of a session. It returns the session, which then lists its shadow.
func withShadow(
	ctx context.Context, cl *client.Client, s client.Session, model string,
) (client.Session, error) {
	_, err := cl.CreateSession(ctx, client.SessionRequest{
		Model: &model, ShadowOf: &s.ID, Seed: &s.Seed,
	})
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.Field == "model" {
		refused.Field = "shadow_model" // the error then names the command's flag
	}
	if err != nil {
		return s, err
	}
	return cl.GetSession(ctx, s.ID)
}

// caughtUp waits until the shadow has been fed all text of its session.
func caughtUp(
	ctx context.Context, cl *client.Client, id string, p *progress,
) (client.Shadow, error) {
	for {
		s, err := cl.GetSession(ctx, id)
		switch {
		case err != nil:
			return client.Shadow{}, err
		case len(s.Shadows) == 0:
			return client.Shadow{}, errors.New("the session of the second model was deleted")
		}
		shadow := s.Shadows[0]
		switch {
		case shadow.Error != nil:
			return shadow, fmt.Errorf("the second model stopped: %s", *shadow.Error)
		case shadow.BehindBytes == 0:
			return shadow, nil
		}
		p.set(shadow.Offset, s.Offset)
		select {
		case <-time.After(shadowPoll):
		case <-ctx.Done():
			return shadow, ctx.Err()
		}
	}
}

type shadowObject struct {
	Shadow             string   `json:"shadow"` // name of the second model
	Bytes              int64    `json:"bytes"`
	BitsPerByte        *float64 `json:"bits_per_byte,omitempty"`
	SessionBitsPerByte *float64 `json:"session_bits_per_byte,omitempty"`
	Difference         *float64 `json:"difference,omitempty"`
}

func (k *scoring) printShadow(w io.Writer, s client.Shadow) error {
	o := shadowObject{Bytes: s.Offset}
	if s.Model != nil {
		o.Shadow = *s.Model
	}
	if c := s.Compared; c != nil {
		o.BitsPerByte, o.SessionBitsPerByte = c.ShadowBitsPerByte, c.SessionBitsPerByte
		o.Difference = c.Difference
	}
	if k.asJSON {
		return printObject(w, o)
	}
	_, err := fmt.Fprintf(w, "%10s  %.3f bits/byte with %s, %.3f without\n", "shadow",
		orZero(o.BitsPerByte), o.Shadow, orZero(o.SessionBitsPerByte))
	return err
}

// readOn waits until the second model, if given, has scored the text, and then prints its score.
func (k *scoring) readOn(c *cobra.Command, cl *client.Client, id string) error {
	if k.shadow == "" {
		return nil
	}
	p := newProgress(c, "scoring with the second model")
	defer p.end()
	s, err := caughtUp(c.Context(), cl, id, p)
	if p.end(); err != nil {
		return err
	}
	return k.printShadow(c.OutOrStdout(), s)
}
