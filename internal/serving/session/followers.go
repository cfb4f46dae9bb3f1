package session

import (
	"fmt"
	"slices"
	"time"
)

// A shadow is a session that follows another session: the server feeds it with the text of that
// session. A shadow serves to compare two models or settings on the same text. It has its own log,
// state and owner. It computes the same bits as if a client fed the text. The text is read from the
// log of the followed session (follower.go).

// feedable returns an error if the session is a shadow, which requests cannot feed.
func (s *session) feedable() error {
	if of := s.shadowOf(); of != "" {
		return &ShadowError{ID: s.ID, Of: of}
	}
	return nil
}

// followed returns the session that this session follows, or nil.
func (s *session) followed() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.following.of
}

// follow makes the session a shadow of another session. It fails if that session was deleted, or
// already has ShadowsMax shadows.
func (s *session) follow(of *session) error {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.deleted.Load() {
		return ErrNotFound
	}
	if n := len(of.mu.following.shadows); n >= ShadowsMax {
		return &FieldError{"shadow_of", fmt.Sprintf("a session with %d shadows", n),
			fmt.Sprintf("a session with at most %d shadows", ShadowsMax-1)}
	}
	of.mu.following.shadows = append(of.mu.following.shadows, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.following.of = of
	return nil
}

// leave makes the session follow no session any more. It returns the session that was followed, or
// nil.
func (s *session) leave() (of *session) {
	s.mu.Lock()
	of = s.mu.following.of
	s.mu.following.of = nil
	s.mu.Unlock()
	if of == nil {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.mu.following.shadows = slices.DeleteFunc(slices.Clone(of.mu.following.shadows),
		func(other *session) bool { return other == s })
	return of
}

// takenUp reports whether the session is still a shadow. If so, the follower may feed it until it
// calls leftAlone.
func (s *session) takenUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.following.of == nil {
		return false
	}
	s.mu.following.turn.Add(1)
	return true
}

func (s *session) leftAlone() { s.mu.following.turn.Done() }

// awaitFollower waits until the follower is neither feeding the shadow nor waiting for its turn.
func (s *session) awaitFollower() { s.mu.following.turn.Wait() }

// wake records that there is text for the shadow. It reports whether the caller must start a
// goroutine to feed it.
func (s *session) wake() (idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle = !s.mu.following.running
	s.mu.following.more, s.mu.following.running = true, true
	return idle
}

func (s *session) beginFollowing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.following.more = false
}

// endFollowing records the error with which the feeding stopped, or nil. It reports whether more
// text has arrived meanwhile.
func (s *session) endFollowing(err error) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.following.stalled = err
	s.mu.following.running = err == nil && s.mu.following.more
	return s.mu.following.running
}

// wakeAfter calls wake after a pause, to retry a failed feeding of the shadow. Another call of
// wakeAfter during the pause restarts the pause. New text wakes the shadow earlier.
func (s *session) wakeAfter(pause time.Duration, wake func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if timer := s.mu.following.rest; timer != nil {
		timer.Reset(pause)
		return
	}
	s.mu.following.rest = time.AfterFunc(pause, wake)
}

// compare records the totals of both sessions at an offset. It returns the totals recorded before,
// or nil.
func (s *session) compare(c Comparison) (before *Comparison) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.mu.following.last = s.mu.following.last, &c
	return before
}

// linkTo describes a shadow in the Info of the followed session, or the followed session in the
// Info of a shadow. Parameter other is the session that is described.
func linkTo(other, followed, shadow *session) Shadow {
	at, has := followed.seen(), shadow.seen()
	other.mu.Lock()
	name := other.Name
	other.mu.Unlock()
	shadow.mu.Lock()
	compared, stalled := shadow.mu.following.last, shadow.mu.following.stalled
	shadow.mu.Unlock()
	if at.offset == has.offset && at.offset > 0 && !at.blind && !has.blind {
		stalled = nil
		compared = &Comparison{
			Offset:   at.offset,
			Followed: followed.account(at.tally, at.baseline),
			Shadow:   shadow.account(has.tally, has.baseline),
		}
	}
	return Shadow{
		ID: other.ID, Name: name, Model: other.Model.id(),
		Words:  other.model != nil && other.model.OfWords(),
		Offset: has.offset, Behind: max(0, at.offset-has.offset), Err: stalled, Compared: compared,
	}
}

// addLinks adds the shadows that the caller may see to the description of a session.
func (s *session) addLinks(who Caller, i *Info) {
	if id := s.shadowOf(); id != "" {
		// used if the followed session is not found
		link := Shadow{ID: id, Offset: i.Offset, Err: ErrNotFound}
		if of := s.followed(); of != nil && of.alive() == nil {
			link = linkTo(of, of, s)
		}
		i.ShadowOf = &link
	}
	for _, shadow := range s.shadows() {
		if who.sees(shadow.Owner) {
			i.Shadows = append(i.Shadows, linkTo(shadow, s, shadow))
		}
	}
}
