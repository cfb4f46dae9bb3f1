package session

import (
	"fmt"
	"slices"
	"time"
)

// A shadow is a session that the server feeds with the text of another session, which it follows.
// It compares two models or settings on the same text. It has its own log, state and owner, and
// computes the same bits as if a client fed the text. It reads the other session's log
// (follower.go).

// feedable returns an error for a shadow.
func (s *session) feedable() error {
	if of := s.shadowOf(); of != "" {
		return &ShadowError{ID: s.ID, Of: of}
	}
	return nil
}

// followed returns the session that this session follows; nil if it follows none.
func (s *session) followed() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.following.of
}

// follow makes the session follow another. It fails if the other session is gone, or has the most
// shadows that it may have.
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

// leave ends the following, and returns the session that was followed; nil if there was none.
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

// takenUp reports whether the session is still a shadow. The follower may then feed it until
// leftAlone.
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

// awaitFollower waits until the follower neither feeds the shadow nor waits to feed it.
func (s *session) awaitFollower() { s.mu.following.turn.Wait() }

// wake records that there is text for the shadow, and reports whether the follower must start.
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

// endFollowing records why the follower has stopped: err, or nil if there was no error. It reports
// whether there is more text by now.
func (s *session) endFollowing(err error) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.following.stalled = err
	s.mu.following.running = err == nil && s.mu.following.more
	return s.mu.following.running
}

// wakeAfter calls wake after a pause, to repeat a failed feeding of the shadow. A call during the
// pause begins it anew. New text of the followed session wakes the shadow earlier.
func (s *session) wakeAfter(pause time.Duration, wake func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if timer := s.mu.following.rest; timer != nil {
		timer.Reset(pause)
		return
	}
	s.mu.following.rest = time.AfterFunc(pause, wake)
}

// compare records the totals of both sessions at an offset, and returns those recorded before, or
// nil.
func (s *session) compare(c Comparison) (before *Comparison) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.mu.following.last = s.mu.following.last, &c
	return before
}

// linkTo describes one side of a shadow to the other side.
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
		// used until the session is found
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
