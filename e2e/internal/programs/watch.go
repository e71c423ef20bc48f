package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// output is a log in memory.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Until waits until an object of the list's kind is as wanted.
func Until[T client.Object](s *System, list client.ObjectList, what string, is func(T) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	events, err := s.API.Watch(ctx, list)
	must(s.t, err)
	defer events.Stop()
	for {
		select {
		case event, open := <-events.ResultChan():
			if !open {
				must(s.t, errors.New("the watch ended before: "+what))
			}
			if o, ok := event.Object.(T); ok && is(o) {
				return
			}
		case <-ctx.Done():
			s.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// Scrape reads a program's own metrics.
func (s *System) Scrape(program string) string {
	s.t.Helper()
	var own strings.Builder
	served, err := s.serve(program)
	must(s.t, err)
	for line := range strings.Lines(served) {
		if strings.HasPrefix(line, "distort_") {
			own.WriteString(line)
		}
	}
	return own.String()
}

// serve reads all that a program tells Prometheus.
func (s *System) serve(program string) (string, error) {
	response, err := http.Get("http://" + s.metrics[program] + "/metrics")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("metrics of %s: %s: %s", program, response.Status, body)
	}
	return string(body), err
}

// Counter sums up a counter of a program, of those with that value of a label. It is
// an error that the program does not answer.
func (s *System) Counter(program, name, label, value string) (float64, error) {
	s.t.Helper()
	served, err := s.serve(program)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(served) {
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, label+`="`+value+`"`) {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		must(s.t, err)
		sum += n
	}
	return sum, nil
}

// Usage is what a process has cost.
type Usage struct {
	// CPU is the time on a processor since the process began.
	CPU time.Duration
	// RSS is its memory now, in bytes.
	RSS int64
}

// clockTick is the unit of times in /proc (man 5 proc, sysconf(_SC_CLK_TCK)).
const clockTick = time.Second / 100

// Usage reads what a program has cost.
func (s *System) Usage(program string) Usage {
	s.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID(program)))
	must(s.t, err)
	// The name, in brackets, may have spaces.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	number := func(i int) int64 {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		must(s.t, err)
		return n
	}
	// Fields 14, 15 and 24 of the file are utime, stime and rss in pages.
	return Usage{CPU: time.Duration(number(11)+number(12)) * clockTick, RSS: number(21) * int64(os.Getpagesize())}
}
