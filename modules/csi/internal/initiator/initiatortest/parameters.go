package initiatortest

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// parameters are the connection parameters of a controller as Linux keeps
// them: a number of attempts where a time was given, queue counts that include
// the admin queue, sizes that begin at 0.
type parameters struct {
	attempts, delay, fastFail int // -1 is off
	keepAlive, queues, size   int
}

func (k *Kernel) parametersOf(options map[string]string) parameters {
	number := func(key string, fallback int) int {
		if n, err := strconv.Atoi(options[key]); err == nil {
			return n
		}
		return fallback
	}
	grant := func(asked, limit int) int {
		if limit > 0 {
			return min(asked, limit)
		}
		return asked
	}
	p := parameters{
		delay: number("reconnect_delay", 10), fastFail: number("fast_io_fail_tmo", -1), keepAlive: number("keep_alive_tmo", 5),
		queues: grant(number("nr_io_queues", 2), k.MaxQueues) + 1, size: grant(number("queue_size", 128), k.MaxQueueSize) - 1,
	}
	p.lose(number("ctrl_loss_tmo", 600))
	return p
}

// lose sets the attempts from seconds, by the delay of the moment.
func (p *parameters) lose(seconds int) {
	p.attempts = -1
	if seconds >= 0 {
		p.attempts = (seconds + p.delay - 1) / p.delay
	}
}

// set is a write to an attribute; the others are read-only.
func (p *parameters) set(attribute, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil {
		return unix.EINVAL
	}
	switch attribute {
	case "reconnect_delay":
		p.delay = n
	case "ctrl_loss_tmo":
		p.lose(n)
	case "fast_io_fail_tmo":
		p.fastFail = max(n, -1)
	default:
		return unix.EACCES
	}
	return nil
}

func (p *parameters) attributes() map[string]string {
	orOff := func(value, unit int) string {
		if value < 0 {
			return "off"
		}
		return strconv.Itoa(value * unit)
	}
	return map[string]string{
		"ctrl_loss_tmo": orOff(p.attempts, p.delay), "reconnect_delay": strconv.Itoa(p.delay),
		"fast_io_fail_tmo": orOff(p.fastFail, 1), "kato": strconv.Itoa(p.keepAlive),
		"queue_count": strconv.Itoa(p.queues), "sqsize": strconv.Itoa(p.size),
	}
}
