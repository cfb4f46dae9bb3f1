package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
)

// Create creates a session for the caller. The error is a *FieldError for invalid settings, a
// *QuotaError, a *DiskLimitError, a *DiskAlarmError, or ErrFull if there is too little memory.
func (mg *Manager) Create(ctx context.Context, who Caller, r CreateRequest) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	p, err := mg.planOf(ctx, who, r)
	if err != nil {
		return Info{}, err
	}
	defer p.done()
	return mg.createNamed(ctx, who, "", p, r)
}

// sessionPlan is the model and the settings, without the seed, of a session to be created.
type sessionPlan struct {
	model *servedModel
	set   stream.Settings
	of    *session // the session whose text the new session also gets; nil if there is none
	done  func()
}

// planOf checks a request and returns the plan of its session. The caller must call p.done if err
// is nil.
func (mg *Manager) planOf(
	ctx context.Context, who Caller, r CreateRequest,
) (p sessionPlan, err error) {
	p.done = func() {}
	name := r.Model
	if name == "" && r.Settings["method"] == MethodCounts {
		name = model.CountsName
	}
	if p.model, err = mg.engine.models.named(name); err != nil {
		return p, err
	}
	if p.set, err = effective(p.model.Model, r.Settings); err != nil {
		return p, err
	}
	if err := checkRequest(r); err != nil || r.ShadowOf == "" {
		return p, err
	}
	if !mg.index.lease.own {
		return p, &FieldError{"shadow_of", strconv.Quote(r.ShadowOf),
			"no value: servers that share sessions have no shadows"}
	}
	p.of, p.done, err = mg.index.toFollow(ctx, who, r.ShadowOf)
	return p, err
}

// createNamed creates a session for a checked request. The name may be empty.
func (mg *Manager) createNamed(
	ctx context.Context, who Caller, name string, p sessionPlan, r CreateRequest,
) (Info, error) {
	p.set.Seed = seedOr(r.Seed)
	s, err := mg.index.fresh(who, name, p.model, p.set, r)
	if err != nil {
		return Info{}, err
	}
	fill := func() error { return s.settleIn(ctx) }
	if p.of != nil {
		s.ShadowOf = p.of.ID
		fill = func() error {
			if err := s.settleIn(ctx); err != nil {
				return err
			}
			return mg.index.follow(ctx, s, p.of)
		}
	}
	store := func() error { return mg.index.create(ctx, s, 0) }
	info, err := mg.index.build(ctx, creation{who: who, s: s, store: store, fill: fill})
	if err == nil && p.of != nil {
		mg.follower.wake(s)
	}
	return info, err
}

const (
	// madeElsewhere is the time to wait before looking again for a session that another server is
	// creating.
	madeElsewhere = 20 * time.Millisecond
	// putTries limits how often Put looks for the session that has the name. The store may contain
	// a session that has the name, but that nobody finds: it is unreadable, or another server is
	// still creating it.
	putTries = 100
)

// Put returns the caller's session with the given name. If there is none, Put creates it as Create
// does, and made is true. Concurrent calls create only one session. The error is a *DifferError if
// the settings, seed or history of the existing session differ from the request. It is a
// *NameTakenError if an unreadable session has the name, and a *FieldError for an invalid name. If
// another server takes long to create the session, the error is ErrUnavailable. Labels and TTL of
// the request apply only to a new session.
func (mg *Manager) Put(
	ctx context.Context, who Caller, name string, r CreateRequest,
) (info Info, made bool, err error) {
	if err := CheckName(name); err != nil {
		return Info{}, false, err
	}
	p, err := mg.planOf(ctx, who, r)
	if err != nil {
		return Info{}, false, err
	}
	defer p.done()
	for tries := 1; ; tries++ {
		s, err := mg.index.catalog.named(ctx, who, name)
		if err != nil {
			return Info{}, false, err
		}
		if s != nil {
			info, err := mg.match(ctx, who, s, p, r)
			return info, false, err
		}
		info, err := mg.createNamed(ctx, who, name, p, r)
		var taken *NameTakenError
		if !errors.As(err, &taken) {
			return info, err == nil, err
		}
		// the name is taken: another request created the session first
		if gone := ctx.Err(); gone != nil || tries == putTries {
			return Info{}, false, cmp.Or(gone, mg.hidden(taken))
		}
		if tries > 1 || !mg.index.lease.own { // another server may still be creating the session
			time.Sleep(madeElsewhere)
		}
	}
}

// hidden returns the error of Put if the session that has the name is not found. In a shared store
// this session may be a fork or an import that another server is making. The name is then found
// later, or is free again.
func (mg *Manager) hidden(taken *NameTakenError) error {
	if mg.index.lease.own {
		return taken
	}
	return fmt.Errorf("%w: session %q is still being made", ErrUnavailable, taken.Name)
}

// match describes the session if it has the properties that the request asks for. Otherwise the
// error is a *DifferError.
func (mg *Manager) match(
	ctx context.Context, who Caller, s *session, p sessionPlan, r CreateRequest,
) (Info, error) {
	if err := s.unusable(); err != nil {
		return Info{}, err
	}
	p.set.Seed = s.Settings.Seed
	if all := s.differences(r, p); len(all) > 0 {
		return Info{}, &DifferError{ID: s.ID, Fields: all}
	}
	return mg.index.get(ctx, who, s.ID)
}

// differences lists the fields in which a session differs from a request. It ignores fields that
// the request does not set. It also ignores labels and TTL, which do not affect scores.
func (s *session) differences(r CreateRequest, asked sessionPlan) (all []FieldError) {
	note := func(field string, have, want any) {
		if !reflect.DeepEqual(have, want) {
			all = append(all, FieldError{Field: field, Found: fmt.Sprint(have),
				Want: fmt.Sprint(want)})
		}
	}
	if r.Model != "" && asked.model != s.model {
		note("model", s.Model.id(), asked.model.ID())
		return all
	}
	have, want := reported(s.Settings), reported(asked.set)
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		note("settings."+name, have[name], want[name])
	}
	if r.Seed != nil {
		note("seed", s.Settings.Seed, *r.Seed)
	}
	if asked.of != nil {
		note("shadow_of", s.shadowOf(), asked.of.ID)
	}
	note("history", s.History, cmp.Or(r.History, s.History))
	return all
}
