package residue

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// nftGetTable is NFT_MSG_GETTABLE of linux/netfilter/nf_tables.h.
const nftGetTable = 1

// nftTables lists the nftables tables of this network namespace by netlink, so that no tool has to be installed.
func nftTables() ([]string, error) {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|nftGetTable, unix.NLM_F_DUMP)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, fmt.Errorf("list the nftables tables: %w", err)
	}
	var out []string
	for _, message := range messages {
		out = append(out, fmt.Sprintf("nftables: %q", message))
	}
	return out, nil
}
