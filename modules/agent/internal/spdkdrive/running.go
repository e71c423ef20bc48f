package spdkdrive

import (
	"context"
	"errors"

	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
	"github.com/distort-io/distort/modules/nvmeof/spdk/supervisor"
)

// AdmitRunning tells whether a target that somebody else runs has the buffers for the
// queues that are expected, and shows the arithmetic if it does not. A target that
// does not know the question is taken as it is; its memory and cores it has already.
func (p Plan) AdmitRunning(ctx context.Context, client *rpc.Client) error {
	cores, err := supervisor.Reactors(ctx, client)
	if err != nil {
		return err
	}
	// As rpc.py save_config asks (lib/init/subsystem_rpc.c).
	var options []struct {
		Method string `json:"method"`
		Params struct {
			Small int `json:"small_pool_count"`
			Large int `json:"large_pool_count"`
		} `json:"params"`
	}
	err = client.Call(ctx, "framework_get_config", map[string]any{"name": "iobuf"}, &options)
	if errors.Is(err, rpc.ErrNoMethod) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, o := range options {
		if o.Method == "iobuf_set_options" {
			p.SmallBuffers, p.LargeBuffers = o.Params.Small, o.Params.Large
			return p.pools(len(cores))
		}
	}
	return nil
}
