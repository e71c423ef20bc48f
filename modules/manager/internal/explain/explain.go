package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// judges are the boundaries in order, each with what judges it.
var judges = []struct {
	boundary Boundary
	judge    func(*Snapshot) Finding
}{
	{Claim, judgeClaim},
	{Placement, judgePlacement},
	{Storage, judgeStorage},
	{Export, judgeExport},
	{Access, judgeAccess},
	{Connection, judgeConnection},
	{Mount, judgeMount},
}

// Explain walks the boundaries and stops at the first that is not passed. One
// that could not be read is passed by, as a later one may still tell; when none
// is broken the verdict is Unknown.
func Explain(s Snapshot) Verdict {
	v := Verdict{Subject: s.Subject, Unreadable: s.Unreadable}
	var first, unknown *Finding
	for _, b := range judges {
		f := Finding{State: NotReached}
		if first == nil {
			f = b.judge(&s)
		}
		f.Boundary = b.boundary
		s.complete(&f)
		v.Steps = append(v.Steps, f)
		switch {
		case first != nil:
		case f.State == Broken || f.State == Waiting || f.State == Unused:
			first = &f
		case f.State == Unknown && unknown == nil:
			unknown = &f
		}
	}
	switch {
	case first != nil && first.State != Unused:
		v.Finding = *first
	case unknown != nil:
		v.Finding = *unknown
	case first != nil:
		v.Finding = Finding{State: OK, Message: first.Message}
	default:
		v.Finding = Finding{State: OK, Message: v.Steps[len(v.Steps)-1].Message}
	}
	for i := range v.Steps {
		v.Note = cmp.Or(v.Note, v.Steps[i].Note)
	}
	return v
}

// complete adds to a finding what follows from its owner.
func (s *Snapshot) complete(f *Finding) {
	if f.Owner == nil {
		return
	}
	if pod := s.podOf(*f.Owner); pod != nil {
		f.Owner.Pod = pod.Name
	}
	if f.Next == "" {
		f.Next = s.next(*f.Owner)
	}
}

func passed(format string, args ...any) Finding {
	return Finding{State: OK, Message: fmt.Sprintf(format, args...)}
}

// unknown is the finding when something of the kinds is needed and not readable.
func unknown(kind string) Finding {
	return Finding{State: Unknown, Reason: "NotReadable", Message: kind + " is not readable"}
}

// broken is a failure that the evidence reports; the first counts.
func broken(owner Owner, message string, evidence ...Evidence) Finding {
	f := Finding{State: Broken, Message: message, Owner: &owner, Evidence: evidence}
	if len(evidence) > 0 {
		f.Reason, f.Since = evidence[0].Reason, evidence[0].Since
	}
	return f
}

// waiting is something in progress since a time: broken once it takes longer
// than Patience, or at once when its owner does not run.
func (s *Snapshot) waiting(owner Owner, since time.Time, message string) Finding {
	f := Finding{State: Waiting, Reason: "InProgress", Message: message, Owner: &owner, Since: at(since)}
	if e := s.notRunning(owner); e != nil {
		f.State, f.Reason, f.Evidence = Broken, "NotRunning", []Evidence{*e}
		f.Message = fmt.Sprintf("%s: %s", message, e.Message)
		return f
	}
	if !since.IsZero() && s.Now.Sub(since) > Patience {
		f.State, f.Reason = Broken, "NoProgress"
		f.Message = fmt.Sprintf("%s; nothing happened for %s", message, Age(s.Now.Sub(since)))
	}
	return f
}

// worst is the first finding of the worst state.
func worst(findings []Finding) Finding {
	badness := map[State]int{Broken: 3, Waiting: 2, Unknown: 1}
	return slices.MaxFunc(findings, func(a, b Finding) int { return cmp.Compare(badness[a.State], badness[b.State]) })
}

// conditionOf is evidence of a condition, nil when it is not set.
func conditionOf(object string, all []metav1.Condition, kind string) *Evidence {
	c := meta.FindStatusCondition(all, kind)
	if c == nil {
		return nil
	}
	return &Evidence{
		Object: object, Condition: c.Type + "=" + string(c.Status), Reason: c.Reason, Message: c.Message, Since: at(c.LastTransitionTime.Time),
	}
}

// falseCondition is evidence of a condition that is False, nil otherwise.
func falseCondition(object string, all []metav1.Condition, kind string) *Evidence {
	if !meta.IsStatusConditionFalse(all, kind) {
		return nil
	}
	return conditionOf(object, all, kind)
}

// brokenBy is the finding of a condition that is False.
func brokenBy(owner Owner, e *Evidence) Finding {
	return broken(owner, fmt.Sprintf("%s %s, %s: %s", e.Object, e.Condition, e.Reason, e.Message), *e)
}

// name is how evidence names an object.
func name(kind, namespace, object string) string {
	if namespace == "" {
		return kind + " " + object
	}
	return kind + " " + namespace + "/" + object
}

func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// transition is when a condition became what it is, else the other time.
func transition(all []metav1.Condition, kind string, otherwise time.Time) time.Time {
	if c := meta.FindStatusCondition(all, kind); c != nil && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	return otherwise
}

// Age is a duration as people say it: "12s", "3m12s", "5h", "2d".
func Age(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute && d%time.Minute != 0:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// Sort orders verdicts by their subjects.
func Sort(verdicts []Verdict) {
	slices.SortFunc(verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Subject.Kind, b.Subject.Kind)*-1,
			cmp.Compare(a.Subject.Namespace, b.Subject.Namespace), cmp.Compare(a.Subject.Name, b.Subject.Name))
	})
}
