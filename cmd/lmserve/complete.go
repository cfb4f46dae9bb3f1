package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/stream"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
)

// maxTokens bounds a completion on the command line.
const maxTokens = 1 << 20

func newComplete() *cobra.Command {
	var mf modelFlags
	var sf streamFlags
	var prompt string
	var n int
	sampling := txl.Sampling{}
	var after []string
	c := &cobra.Command{
		Use:     "complete [--after FILE] --prompt TEXT",
		Short:   "Continue a prompt, after adapting to some text",
		Example: "  lmserve complete --after access.log --prompt 'GET /'",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if n < 1 || n > maxTokens {
				return usageError{fmt.Errorf("--max-tokens is %d, expected 1 to %d", n, maxTokens)}
			}
			if err := sampling.Validate(); err != nil {
				return usageError{err}
			}
			m, err := mf.load()
			if err != nil {
				return err
			}
			set, err := sf.settings(m)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("seed") {
				sampling.Seed = uint64(time.Now().UnixNano())
			} else {
				sampling.Seed = sf.seed
			}
			w := stream.NewWorker(m, mf.threads)
			defer w.Close()
			s := stream.New(m, set)
			if len(after) > 0 {
				in, closeIn, err := openAll(after, nil)
				if err != nil {
					return err
				}
				defer closeIn()
				text, err := io.ReadAll(in)
				if err != nil {
					return err
				}
				for len(text) > 0 && c.Context().Err() == nil {
					k := min(len(text), s.Room())
					w.Feed(s, text[:k], nil)
					text = text[k:]
				}
			}
			return generate(c, w, s, prompt, sampling, n)
		},
	}
	mf.register(c)
	sf.register(c)
	c.Flags().StringVar(&prompt, "prompt", "", "text to continue")
	c.Flags().StringSliceVar(&after, "after", nil, "files to adapt to before the prompt, in this order")
	c.Flags().IntVar(&n, "max-tokens", 200, "most tokens to sample")
	c.Flags().Float64Var(&sampling.Temperature, "temperature", 0.8, "sampling temperature: 0 takes the likeliest token always, 1 draws from the model's own distribution")
	c.Flags().IntVar(&sampling.TopK, "top-k", 0, "draw from the k likeliest tokens only (0: all)")
	c.Flags().Float64Var(&sampling.TopP, "top-p", 0, "draw from the likeliest tokens that make up this probability (0: all)")
	return c
}

// generate prints the prompt and its continuation as it is sampled, in whole
// UTF-8 characters.
func generate(c *cobra.Command, w *stream.Worker, s *stream.Stream, prompt string, p txl.Sampling, n int) error {
	out := c.OutOrStdout()
	if _, err := io.WriteString(out, prompt); err != nil {
		return err
	}
	var split tokenizer.UTF8
	var err error
	f := s.Frozen()
	w.Feed(f, []byte(prompt), nil)
	w.Generate(f, txl.NewSampler(p, tokenizer.Bytes{}.Vocab()), func(id int32, _ float32) bool {
		_, err = out.Write(split.Append(nil, []byte{byte(id)}))
		n--
		return n > 0 && err == nil && c.Context().Err() == nil
	})
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", split.Flush(nil))
	}
	if err == nil {
		err = c.Context().Err()
	}
	return err
}
