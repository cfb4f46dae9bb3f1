package train

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lmserve/lmserve/internal/arithmetic/kernel"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/learning/train/corpus"
	"github.com/lmserve/lmserve/tokenizer"
	"github.com/lmserve/lmserve/txl"
	"github.com/lmserve/lmserve/weights"
)

// open reads everything that a run needs: text, model and, to resume, the last checkpoint. If ctx
// ends, open returns ctx.Err().
func open(ctx context.Context, o Options) (*runner, *checkpoint, error) {
	r := &runner{o: o.withDefaults(), writeFile: weights.WriteFile}
	if err := r.o.validate(); err != nil {
		return nil, nil, err
	}
	text, valid, err := r.loadText(ctx)
	if err != nil {
		return nil, nil, err
	}
	init, becomes, err := r.loadModel(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.base.Arithmetic = kernel.Arithmetic{Precision: r.o.Precision}
	// loadModel has completed the options
	if err := r.o.validate(); err != nil {
		return nil, nil, err
	}
	if _, err := r.model(nil); err != nil { // the name may be invalid
		return nil, nil, err
	}
	// Sessions of the model would refuse a smaller chunk.
	if c, least := r.o.Meta.Chunk, stream.ChunkMin(r.base); c != 0 && c < least {
		return nil, nil, &OptionError{"Meta.Chunk", fmt.Sprint(c),
			fmt.Sprintf("%d to %d for a model of words", least, stream.MaxChunk)}
	}
	if r.o.Meta.Companion && r.base.OfWords() {
		return nil, nil, &OptionError{"Meta.Companion", "true", "false for a model of words"}
	}
	if n := r.o.Meta.CompanionBytes; n != 0 && r.base.OfWords() {
		return nil, nil, &OptionError{"Meta.CompanionBytes", fmt.Sprint(n),
			"no value for a model of words"}
	}
	if r.o.Meta.CompanionAlone && r.base.OfWords() {
		return nil, nil, &OptionError{"Meta.CompanionAlone", "true", "false for a model of words"}
	}
	if share := r.o.Pretrain.Companion; share > 0 && r.base.OfWords() {
		return nil, nil, &OptionError{"Pretrain.Companion", fmt.Sprint(share),
			"0 for a model of words"}
	}
	if r.valid != nil {
		r.valid.companion = r.o.Meta.Companion || r.o.Pretrain.Companion > 0
	}
	if becomes != "" {
		if err := r.note("meta-learners of %s %s", o.Init, becomes); err != nil {
			return nil, nil, err
		}
	}
	r.recipe = newRecipe(&r.o, r.base, init, text, valid)
	last, err := r.openFolder()
	if err != nil {
		return nil, nil, err
	}
	if err := CanWrite(o.Out); err != nil {
		return nil, nil, err
	}
	fields, err := r.recipe.Fields()
	if err != nil {
		return nil, nil, fmt.Errorf("train: encoding the recipe: %w", err)
	}
	err = r.tell(Opened{
		r.o.Name, r.unit(), r.o.Phases, fields, r.o.Dir, r.o.Store, r.base.Arithmetic.Numerics(),
	})
	if err != nil {
		return nil, nil, err
	}
	r.x = kernel.NewExecIn(r.o.Threads, r.base.Arithmetic)
	return r, last, nil
}

// openFolder creates the folder for checkpoints. If the run resumes, openFolder reads the last
// checkpoint. If the folder already has a checkpoint, Options.Resume is required.
func (r *runner) openFolder() (last *checkpoint, err error) {
	dir := r.o.Dir
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("%w folder %s: %w", ErrCheckpoint, dir, cause(err))
	}
	_, err = os.Stat(r.file(lastName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		if r.o.Resume {
			err := r.note("%s has no checkpoint yet; the run starts from the beginning",
				dir)
			return nil, err
		}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w %s: %w", ErrCheckpoint, r.file(lastName), cause(err))
	case !r.o.Resume:
		return nil, fmt.Errorf("%w folder %s already contains a training run (%s): resume that "+
			"run or choose another folder", ErrCheckpoint, dir, lastName)
	}
	if last, err = readCheckpoint(r.file(lastName), r.recipe); err != nil {
		return nil, err
	}
	return last, samePrecision(last, r.base.Arithmetic)
}

// loadText reads the text to train on and the text for validation, and returns a record of each.
// Without validation, the second record is nil.
func (r *runner) loadText(
	ctx context.Context,
) (text TextRecord, _ *TextRecord, err error) {
	if r.text, err = corpus.Load(ctx, r.o.Data, 0); err != nil {
		return text, nil, err
	}
	var valid *corpus.Corpus
	switch r.o.Valid {
	case ValidNone:
	case "":
		r.text, valid = r.text.KeepBack(kernel.Key(r.o.Seed, useKeepBack))
	default:
		limit := max(0, r.o.Validation.Bytes)
		if valid, err = corpus.Load(ctx, r.o.Valid, limit); err != nil {
			return text, nil, err
		}
	}
	text = recordOf(r.text)
	if r.seen, err = r.text.Without(r.o.HoldOut); err != nil || valid == nil {
		return text, nil, err
	}
	if err := r.apart(valid); err != nil {
		return text, nil, err
	}
	r.valid = &validator{valid, r.o.Validation, kernel.Key(r.o.Seed, useValidation), r.o.Threads,
		false}
	return text, new(recordOf(valid)), nil
}

// apart returns an *OptionError if the run would train on a file of the validation text.
func (r *runner) apart(valid *corpus.Corpus) error {
	if r.o.Valid == "" {
		return nil
	}
	trained := r.text
	if !r.o.trainsLearner() {
		trained = r.seen
	}
	name, err := valid.Shared(trained)
	if err == nil && name != "" {
		err = &OptionError{"Valid", r.o.Valid, fmt.Sprintf("a directory without files of %s, "+
			"which is the text to train on; both have %s", r.o.Data, name)}
	}
	return err
}

// loadModel loads or creates the initial model, and completes the options that depend on the model.
// For a loaded model, init is the model's hash, and becomes describes what happens to the
// meta-learners.
func (r *runner) loadModel(ctx context.Context) (init, becomes string, err error) {
	if r.o.Init == "" {
		err = r.newModel(ctx)
	} else {
		init, becomes, err = r.goOn(ctx)
	}
	if err != nil {
		return "", "", err
	}
	asked := r.o.Meta.Companion
	r.o.complete(r.base, r.text.Tokens())
	if m := &r.o.Meta; m.Companion && !asked && m.Scheme == SchemeWindow {
		err = &OptionError{"Meta.Scheme", m.Scheme, SchemeOnline + ", because the initial " +
			"model's meta-learners learned with a companion"}
	}
	return init, becomes, err
}

// goOn loads the model in Options.Init, and converts the text to the model's tokens.
func (r *runner) goOn(ctx context.Context) (init, becomes string, err error) {
	o := &r.o
	m, err := model.Load(o.Init)
	if err != nil {
		return "", "", fmt.Errorf("train: loading the initial model: %w", err)
	}
	if m.OfWords() && o.Tokenizer.Kind == tokenizer.KindBytes {
		return "", "", otherTokenizer(tokenizer.KindBytes)
	}
	init = m.Hash()
	size := m.LM.Layout.Size
	if m.LM, err = reshape(m.LM, o.Model); err != nil {
		return "", "", err
	}
	if m.LM.Layout.Size != size || o.Phases[0] == PhasePretrain {
		m.Statistics = nil // the statistics belong to other weights
	}
	fill(&o.Name, m.Name)
	m.Name = o.Name
	if becomes, err = r.keepLearner(m); err != nil {
		return "", "", err
	}
	if o.Meta.Normal != nil && m.Statistics == nil {
		return "", "", noStatistics()
	}
	r.base = m
	return init, becomes, r.encode(ctx, m.Tokenizer)
}

// reshape changes the configuration of a model. The new configuration may have other lengths,
// because no weight depends on lengths. It may also separate the softmax's tables from the
// embeddings; the tables begin as copies. The zero configuration changes nothing.
func reshape(lm *txl.Model, to txl.Config) (*txl.Model, error) {
	if to.NLayer == 0 {
		return lm, nil
	}
	c := lm.Config
	to = to.WithVocab(c.Vocab)
	c.SegLen, c.MemLen, c.ClampLen, c.SameLength = to.SegLen, to.MemLen, to.ClampLen, to.SameLength
	c.UntieSoftmax = c.UntieSoftmax || to.UntieSoftmax
	if have, want := showJSON(to), showJSON(c); have != want {
		return nil, &OptionError{"Model", have, want + ", the value of the initial model (only " +
			"lengths and untie_softmax can differ)"}
	}
	if c.UntieSoftmax {
		lm = lm.UntieSoftmax()
	}
	lm.Config = c
	return lm, nil
}

// Descriptions of what happens to the meta-learners of the model Options.Init; "" if there are
// none.
const (
	learnerKept    = "are kept unchanged"
	learnerTrained = "are trained further"
	learnerRenewed = "are created again: the requested branches, banks or inputs differ"
	learnerDropped = "are dropped: their gradient statistics do not fit the weights after " +
		"pretraining or with untie_softmax"
)

func noStatistics() error {
	return &OptionError{"Meta.Normal", "true", "false, or an initial model with gradient " +
		"statistics (see lmserve tune --statistics) that is not pretrained further"}
}

// keepLearner decides whether the run can use the model's meta-learners, and otherwise removes
// them. It returns a text about the decision.
func (r *runner) keepLearner(m *model.Model) (string, error) {
	if m.Learner == nil {
		return "", nil
	}
	if m.Learner.Normal != nil && m.Statistics == nil {
		m.Learner = nil
		return learnerDropped, nil
	}
	switch ok, err := reusable(m, r.o.Meta); {
	case !ok || err != nil:
		m.Learner = nil
		return learnerRenewed, err
	case !r.o.trainsLearner():
		return learnerKept, nil
	}
	return learnerTrained, nil
}

func (r *runner) newModel(ctx context.Context) error {
	o := &r.o
	if o.Meta.Normal != nil {
		return noStatistics()
	}
	tok, err := r.newTokenizer(ctx)
	if err != nil {
		return err
	}
	name := "model"
	if o.Model.NLayer == 0 {
		if o.Model, err = txl.Named(DefaultConfig); err != nil {
			return err
		}
		name = DefaultConfig
	}
	fill(&o.Name, name)
	words := o.Tokenizer.Kind == tokenizer.KindWords
	if words {
		o.Model = o.Model.WithVocab(tok.Vocab())
	}
	lm, err := txl.NewModel(o.Model)
	if err != nil && words {
		return fmt.Errorf("train: the model with the %d symbols of the vocabulary is invalid: "+
			"%w", tok.Vocab(), err)
	}
	if err != nil {
		return err
	}
	lm.Init(kernel.Key(o.Seed, useWeights))
	r.base, err = model.NewOf(tok, o.Name, lm, nil, 1, nil)
	return err
}
