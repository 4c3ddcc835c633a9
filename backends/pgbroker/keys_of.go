package pgbroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Keys is declined.
func (b *Broker) Keys(context.Context, broker.KeysRequest) (broker.KeysReply, error) {
	return broker.KeysReply{}, broker.About(broker.ErrUnsupported, "keys", "", "")
}
