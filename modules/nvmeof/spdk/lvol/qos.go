package lvol

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

// Limits are rate limits; 0 is none. SPDK forgets them when it is restarted.
type Limits = wire.Limits

// ioStep is SPDK's granularity of operations in a second; it rounds up silently.
const ioStep = 1000

const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// SetLimits gives the volume exactly these limits and answers those that are in
// force, which are rounded up. It waits until the volume is exported: a limit that
// SPDK is given for a bdev that nobody has open cannot be changed any more until
// somebody opens it. There is no event for that.
func (v *Volumes) SetLimits(ctx context.Context, uuid string, want Limits) (Limits, error) {
	if err := checkLimits(want); err != nil {
		return Limits{}, err
	}
	want.RWIOs = (want.RWIOs + ioStep - 1) / ioStep * ioStep
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		now, err := v.setLimits(ctx, uuid, want)
		if err != nil || now != nil {
			return limits(now), err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Limits{}, fmt.Errorf("limits of volume %s: %w: nobody has it open yet: %w", uuid, nvmeof.ErrBusy, ctx.Err())
		}
	}
}

// setLimits is one attempt; it answers nil if the volume is not open.
func (v *Volumes) setLimits(ctx context.Context, uuid string, want Limits) (*Limits, error) {
	now, err := v.Get(ctx, uuid)
	if err != nil {
		return nil, err
	}
	if now.Limits == want {
		return &now.Limits, nil
	}
	writer, err := v.client.Begin(ctx, wire.ObjectBdev(uuid))
	if err != nil {
		return nil, err
	}
	defer writer.End()
	if now, err = v.Get(ctx, uuid); err != nil || !now.Claimed {
		return nil, err
	}
	refused := writer.Call(ctx, "bdev_set_qos_limit", struct {
		UUID string `json:"name"`
		wire.Limits
	}{uuid, want}, nil)
	if now, err = v.Get(ctx, uuid); err != nil {
		return nil, err
	}
	if now.Limits == want {
		return &now.Limits, nil
	}
	if refused == nil {
		refused = fmt.Errorf("%w: SPDK has %+v", ErrConflict, now.Limits)
	}
	return nil, fmt.Errorf("limits of volume %s: %w", uuid, refused)
}

// checkLimits refuses what SPDK takes for "not given", or overflows.
func checkLimits(l Limits) error {
	for field, value := range map[string]uint64{"rwIOs": l.RWIOs, "rwMiB": l.RWMiB, "rMiB": l.RMiB, "wMiB": l.WMiB} {
		if value > math.MaxInt64/mib {
			return &nvmeof.FieldError{Field: field, Value: strconv.FormatUint(value, 10), Rule: "must be at most " + strconv.Itoa(math.MaxInt64/mib)}
		}
	}
	return nil
}

func limits(l *Limits) Limits {
	if l == nil {
		return Limits{}
	}
	return *l
}
