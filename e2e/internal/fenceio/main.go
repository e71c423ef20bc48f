package fenceio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const usage = `usage:
  fenceio connect NQN HOSTNQN HOSTID TRANSPORT ADDRESS PORT   print the device
  fenceio read DEVICE                                         print all records
  fenceio write NQN WRITER                                    write until killed
  fenceio own DEVICE WRITER DURATION < RECORDS                write and check until the input ends
                                                              or DURATION is over, print how many`

// Exit codes.
const (
	ExitFailure      = 1
	ExitForeignWrite = 3
)

// Main runs one command and returns the exit code.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	err := runCommand(ctx, args, in, out)
	if err == nil {
		return 0
	}
	fmt.Fprintf(errOut, "fenceio: %v\n", err)
	if errors.Is(err, ErrForeignWrite) {
		return ExitForeignWrite
	}
	return ExitFailure
}

func runCommand(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch {
	case verb == "connect" && len(args) == 7:
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		path, err := Connect(ctx, Connection{NQN: args[1], HostNQN: args[2], HostID: args[3], Transport: args[4], Address: args[5], Port: args[6]})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, path)
		return err
	case verb == "read" && len(args) == 2:
		records, err := Read(args[1])
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(records)
	case verb == "write" && len(args) == 3:
		Write(ctx, func() string { return find("/sys", args[1]) }, args[2])
		return nil
	case verb == "own" && len(args) == 4:
		return own(ctx, args, in, out)
	}
	return errors.New(usage)
}

// own writes until its input ends or the duration is over.
func own(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	d, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	var beginning []Record
	if err := json.NewDecoder(in).Decode(&beginning); err != nil {
		return fmt.Errorf("read the records: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	n, err := Own(ctx, args[1], args[2], beginning)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, n)
	return err
}
