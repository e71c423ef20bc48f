package report

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// probe is a remembered look at a medium: it starts two programs, so it is not
// repeated with each of the frequent scans.
type probe struct {
	drive    inventory.Drive
	found    media.Finding
	at       time.Time
	timeouts int // looks in a row that timed out since found was seen
	// changes that this agent had made to the drive's table.
	changes uint64
}

// fresh tells whether the look still counts. A drive that was blank is not any more
// when this agent has changed its table since.
func (p probe) fresh(d inventory.Drive, now time.Time, changes uint64) bool {
	if p.drive != d || p.found.Verdict == media.Blank && p.changes != changes {
		return false
	}
	period := mediaPause
	if p.found.Verdict == media.Distort && p.timeouts == 0 {
		period = mediaPeriod
	}
	return now.Sub(p.at) < period
}

// next is what is remembered after another look. One that timed out, as it does
// under load, says nothing: a drive that has not changed keeps its verdict if that
// was good. Whoever writes to the drive probes it again anyhow.
func (p probe) next(d inventory.Drive, found media.Finding, have *v1alpha1.NVMeDevice, now time.Time) probe {
	fresh := probe{drive: d, found: found, at: now}
	if found.Verdict != media.Unreadable || !errors.Is(found.Err, context.DeadlineExceeded) {
		return fresh
	}
	switch {
	case p.drive == d && (p.found.Verdict == media.Blank || p.found.Verdict == media.Distort):
		return probe{drive: d, found: p.found, at: now, timeouts: p.timeouts + 1}
	case p.drive == inventory.Drive{}:
		// The first look of this process: its predecessor's verdict is in the object.
		if verdict, ok := recorded(d, have); ok {
			return probe{drive: d, found: verdict, at: now, timeouts: 1}
		}
	}
	return fresh
}

// recorded is the good verdict that the drive's object has.
func recorded(d inventory.Drive, have *v1alpha1.NVMeDevice) (media.Finding, bool) {
	if have == nil || have.Spec.PCIAddress != d.PCIAddress || !meta.IsStatusConditionTrue(have.Status.Conditions, v1alpha1.ConditionHardwareAvailable) {
		return media.Finding{}, false
	}
	c := meta.FindStatusCondition(have.Status.Conditions, v1alpha1.ConditionMediaUsable)
	if c == nil || !meta.IsStatusConditionTrue(have.Status.Conditions, v1alpha1.ConditionMediaUsable) {
		return media.Finding{}, false
	}
	message, _, _ := strings.Cut(c.Message, slow)
	switch c.Reason {
	case v1alpha1.ReasonOwnLabel:
		return media.Finding{Verdict: media.Distort, Message: message}, true
	case v1alpha1.ReasonBlank:
		return media.Finding{Verdict: media.Blank, Message: message}, true
	}
	return media.Finding{}, false
}

const slow = "; since then "

// slowness says that a drive could not be probed again. It counts in powers of
// two, so that a drive that stays slow costs a write less and less often.
func slowness(timeouts int) string {
	if timeouts < 2 {
		return ""
	}
	return fmt.Sprintf("%sat least %d probes in a row timed out", slow, 1<<(bits.Len(uint(timeouts))-1))
}
