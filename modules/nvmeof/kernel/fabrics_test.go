package kernel_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/distort-io/distort/modules/nvmeof"
)

// connectFabrics connects this machine's own initiator (module nvme-tcp or
// nvme-rdma) as a host.
func connectFabrics(host, nqn string, l nvmeof.Listener) (func() error, error) {
	f, err := os.OpenFile("/dev/nvme-fabrics", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	options := fmt.Sprintf("transport=%s,traddr=%s,trsvcid=%d,nqn=%s,hostnqn=%s,hostid=%s,nr_io_queues=1,reconnect_delay=1,ctrl_loss_tmo=1",
		l.Transport, l.Address, l.Port, nqn, host, nvmeof.DeriveUUID(host))
	if _, err := f.WriteString(options); err != nil {
		return nil, fmt.Errorf("connect %s: %w", options, err)
	}
	answer := make([]byte, 256)
	n, err := f.Read(answer)
	if err != nil {
		return nil, err
	}
	var instance int
	if _, err := fmt.Sscanf(string(bytes.TrimSpace(answer[:n])), "instance=%d", &instance); err != nil {
		return nil, fmt.Errorf("answer %q: %w", answer[:n], err)
	}
	return func() error {
		err := os.WriteFile(fmt.Sprintf("/sys/class/nvme/nvme%d/delete_controller", instance), []byte("1"), 0)
		if err != nil && (os.IsNotExist(err) || strings.Contains(err.Error(), "no such device")) {
			return nil // the initiator gave it up by itself
		}
		return err
	}, nil
}
