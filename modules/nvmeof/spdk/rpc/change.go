package rpc

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/turns"
)

// Change is the sole right to change some objects of the target. What is being
// changed, and what another change of it could crash, is named by the callers:
// they agree on names, and on the order in which they take them. A Change is not
// for many goroutines.
type Change struct {
	client *Client
	names  []string
	turns  []*turns.Turn
	sent   *call // the last one
}

// Begin waits for its turn at all objects, in the order given. If ctx ends first
// the error is nvmeof.ErrBusy, and says what somebody is doing with the object.
func (c *Client) Begin(ctx context.Context, objects ...string) (*Change, error) {
	ch := &Change{client: c}
	if _, err := ch.Also(ctx, objects...); err != nil {
		return nil, err
	}
	return ch, nil
}

// Also takes more objects. The function that it returns gives them back, or leaves
// that to End if SPDK has not answered the last call.
func (ch *Change) Also(ctx context.Context, objects ...string) (giveBack func(), err error) {
	first := len(ch.names)
	for _, name := range objects {
		turn, err := ch.client.objects.Take(ctx, name)
		if err != nil {
			ch.release(first)
			return nil, err
		}
		ch.names, ch.turns = append(ch.names, name), append(ch.turns, turn)
	}
	return func() {
		if ch.settled() {
			ch.release(first)
		}
	}, nil
}

// Call is Client.Call for a method that changes something. Where the last call has
// not been answered yet, it waits for that.
func (ch *Change) Call(ctx context.Context, method string, params, result any) error {
	if !ch.settled() {
		select {
		case <-ch.sent.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s is not finished: %w", nvmeof.ErrBusy, ch.sent.method, ctx.Err())
		}
	}
	for _, t := range ch.turns {
		t.Step.Store(&turns.Step{What: method})
	}
	sent, err := ch.client.call(ctx, method, params, result)
	if sent != nil {
		ch.sent = sent
	}
	return err
}

// End lets the next writer have the objects, at once or when SPDK has answered
// the last call, or is gone.
func (ch *Change) End() {
	if ch.settled() {
		ch.release(0)
		return
	}
	go func() {
		<-ch.sent.done
		ch.release(0)
	}()
}

// settled tells whether SPDK owes no answer.
func (ch *Change) settled() bool {
	if ch.sent == nil {
		return true
	}
	select {
	case <-ch.sent.done:
		return true
	default:
		return false
	}
}

// release gives back what was taken from the n-th object on.
func (ch *Change) release(n int) {
	for i, t := range ch.turns[n:] {
		ch.client.objects.Release(ch.names[n+i], t)
	}
	ch.names, ch.turns = ch.names[:n], ch.turns[:n]
}
