package fenceio

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// writers is how many write at once.
	writers = 8
	// pace is the least time from a write of a writer to its next one. A few hundred
	// writes a second use up an emulated CPU. Most of that is the kernel's share, which
	// no priority of this program bounds: the pods of the node would starve, and those
	// are what is tested.
	pace = 100 * time.Millisecond
	// retryPause keeps a writer without a device from using up the CPU.
	retryPause = 20 * time.Millisecond
)

// Write writes records, one after the other from several writers at once, until ctx
// ends. Errors do not stop it: it opens the device again and goes on, as an
// application would that must not give up. locate says where the device is now, "" while
// there is none: the kernel gives the name of one that went to the next one that comes.
func Write(ctx context.Context, locate func() string, writer string) {
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for number := 1; ctx.Err() == nil; {
				d, err := openLocated(locate)
				if err == nil {
					number, err = writeOn(ctx, d, writer, w, number)
					d.close()
				}
				if err != nil {
					select {
					case <-ctx.Done():
					case <-time.After(retryPause):
					}
				}
			}
		})
	}
	group.Wait()
}

// openLocated opens what was the device before and after it was opened.
func openLocated(locate func() string) (*device, error) {
	path := locate()
	if path == "" {
		return nil, errNoDevice
	}
	d, err := open(path)
	if err == nil && locate() != path {
		d.close()
		return nil, errNoDevice
	}
	return d, err
}

var errNoDevice = errors.New("the volume has no device")

// writeOn writes the slots of one goroutine in turn, from a number on, and returns
// the next one.
func writeOn(ctx context.Context, d *device, writer string, first, number int) (int, error) {
	next := time.NewTicker(pace)
	defer next.Stop()
	for ctx.Err() == nil {
		for slot := first; slot < Slots && ctx.Err() == nil; slot += writers {
			if err := d.write(slot, NewRecord(writer, number, slot)); err != nil {
				return number, err
			}
			number++
			<-next.C
		}
	}
	return number, nil
}

// ErrForeignWrite: a slot has something else than what was there before and what
// the only writer wrote since.
var ErrForeignWrite = errors.New("somebody else wrote")

// Own writes one record to each slot, goes on until ctx ends, and reads each slot
// before it writes there, and all of them at the end: a slot has what it had in the
// beginning or what was written here, or the error is ErrForeignWrite. Any I/O
// error is an error. It returns how many records were written.
func Own(ctx context.Context, path, writer string, beginning []Record) (written int, err error) {
	if len(beginning) != Slots {
		return 0, fmt.Errorf("%d records, want one for each of %d slots", len(beginning), Slots)
	}
	var group sync.WaitGroup
	counts, failures := make([]int, writers), make([]error, writers)
	for w := range writers {
		group.Go(func() { counts[w], failures[w] = ownSlots(ctx, path, writer, w, beginning) })
	}
	group.Wait()
	for _, n := range counts {
		written += n
	}
	return written, errors.Join(failures...)
}

func ownSlots(ctx context.Context, path, writer string, first int, beginning []Record) (int, error) {
	d, err := open(path)
	if err != nil {
		return 0, err
	}
	defer d.close()
	expected := map[int]Record{}
	for slot := first; slot < Slots; slot += writers {
		expected[slot] = beginning[slot]
	}
	check := func(slot int) error {
		got, err := d.read(slot)
		switch {
		case errors.Is(err, errTorn):
			return fmt.Errorf("%w: %w, expected %q", ErrForeignWrite, err, expected[slot])
		case err == nil && got != expected[slot]:
			return fmt.Errorf("%w: slot %d has %q, expected %q", ErrForeignWrite, slot, got, expected[slot])
		}
		return err
	}
	next := time.NewTicker(pace)
	defer next.Stop()
	number := 0
	// The first round is finished however slow the device is: what is left of the
	// old host's records proves nothing.
	for round := 0; round == 0 || ctx.Err() == nil; round++ {
		for slot := first; slot < Slots && (round == 0 || ctx.Err() == nil); slot += writers {
			if err := check(slot); err != nil {
				return number, err
			}
			number++
			r := NewRecord(writer, number, slot)
			if err := d.write(slot, r); err != nil {
				return number, err
			}
			expected[slot] = r
			<-next.C
		}
	}
	for slot := range expected {
		if err := check(slot); err != nil {
			return number, err
		}
	}
	return number, nil
}
