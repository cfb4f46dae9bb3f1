package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/learning/checkpoint"
)

func tryConverted(c *cobra.Command, out string, order checkpoint.Order) error {
	p := newProgress(c, "convert")
	defer p.end()
	p.say("scoring a sample of English")
	m, err := model.Load(out)
	if err != nil {
		return fmt.Errorf("the model was written, but cannot be loaded: %w", err)
	}
	s := checkpoint.Try(m.LM, m.Tokenizer, runtime.GOMAXPROCS(0))
	p.end()
	if !s.Applies() {
		_, err := fmt.Fprintf(c.OutOrStdout(), "  perplexity not checked: the vocabulary lacks "+
			"%d of %d words of the English sample\n", s.Unknown, s.Tokens)
		return err
	}
	text := fmt.Sprintf("  perplexity of a sample of English: %.4g", s.Perplexity)
	if s.Other > 0 {
		text += fmt.Sprintf(", with %s clusters %.4g", order.Other(), s.Other)
	}
	if _, err := fmt.Fprintf(c.OutOrStdout(), "%s; a uniform guess has %d\n", text,
		s.Vocab); err != nil {
		return err
	}
	warnOfConverted(c, s, order)
	return nil
}

func warnOfConverted(c *cobra.Command, s checkpoint.Sample, order checkpoint.Order) {
	if s.Other > 0 && s.Other < s.Perplexity {
		fmt.Fprintf(c.ErrOrStderr(), "lmserve: the model predicts a sample of English better "+
			"with %s clusters: perplexity %.4g, compared with %.4g with %s clusters; try --%s "+
			"%[1]s\n", order.Other(),
			s.Other, s.Perplexity, order, clusterOrderName)
	}
	if s.Sane() {
		return
	}
	try := "--vocab and the settings that were given"
	if s.Other > 0 {
		try = fmt.Sprintf("--%s %s, ", clusterOrderName, order.Other()) + try
	}
	fmt.Fprintf(c.ErrOrStderr(),
		"lmserve: the model predicts a sample of English no better than a uniform guess: "+
			"perplexity %.4g of %d tokens, expected less than %d; unless the model was trained "+
			"on other text, check %s\n", s.Perplexity, s.Tokens, s.Vocab, try)
}
