package initiator

import (
	"strconv"
	"strings"
)

const (
	defaultCtrlLossTimeout = -1
	defaultReconnectDelay  = 10
	defaultFastIOFail      = -1
	maxDefaultIOQueues     = 8
)

// connectOptions is the text that makes the kernel create one controller. Its
// values were validated: none can hold a comma or a control byte.
func connectOptions(t Target, p Portal, cpus int) string {
	var b strings.Builder
	add := func(key, value string) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(key + "=" + value)
	}
	number := func(key string, value *int, fallback ...int) {
		switch {
		case value != nil:
			add(key, strconv.Itoa(*value))
		case len(fallback) > 0:
			add(key, strconv.Itoa(fallback[0]))
		}
	}
	add("nqn", t.NQN)
	add("transport", string(p.Transport))
	add("traddr", p.Address.String())
	add("trsvcid", strconv.Itoa(int(p.Port)))
	add("hostnqn", t.HostNQN)
	add("hostid", t.HostID)
	number("ctrl_loss_tmo", t.Params.CtrlLossTimeout, defaultCtrlLossTimeout)
	number("reconnect_delay", t.Params.ReconnectDelay, defaultReconnectDelay)
	number("nr_io_queues", t.Params.IOQueues, min(cpus, maxDefaultIOQueues))
	number("keep_alive_tmo", t.Params.KeepAliveTimeout)
	number("fast_io_fail_tmo", t.Params.FastIOFailTimeout)
	number("queue_size", t.Params.QueueSize)
	return b.String()
}
