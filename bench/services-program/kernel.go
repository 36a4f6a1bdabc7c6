package main

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"
)

// What the kernel tells of nf_tables: each transaction, right after it has taken effect. It is told to everybody who listens,
// whichever program wrote it, and nothing has to be listed for it.
type kernel struct {
	socket int
	// Endpoints' addresses, that of all of them: 10.128.0.0 to 10.255.255.255.
	seen func(address uint32, at time.Time)
}

const (
	netfilter   = 12
	nftablesBit = 1 << (7 - 1)
	// Above what a user may take; the first transaction of 1,000 Services is large.
	receiveBuffer   = 1 << 30
	receiveBufForce = 33
)

func openKernel(seen func(uint32, time.Time)) (*kernel, error) {
	socket, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, netfilter)
	if err != nil {
		return nil, err
	}
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, receiveBufForce, receiveBuffer); err != nil {
		return nil, err
	}
	address := &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK, Groups: nftablesBit}
	if err := syscall.Bind(socket, address); err != nil {
		return nil, err
	}
	return &kernel{socket, seen}, nil
}

// Reads until it fails: also when there was more than could be kept.
func (one *kernel) read() error {
	buffer := make([]byte, 1<<20)
	for {
		count, _, err := syscall.Recvfrom(one.socket, buffer, 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("listening to nf_tables: %w", err)
		}
		at := time.Now()
		scan(buffer[:count], func(address uint32) { one.seen(address, at) })
	}
}

// netlink's header, and those of messages: a type and flags, and a sequence and a sender.
const headerSize = 16

// The types of NFNL_SUBSYS_NFTABLES that bring something: NEWRULE and NEWSETELEM.
const (
	newRule    = 10<<8 | 6
	newElement = 10<<8 | 12
)

// Finds what can be an endpoint's address in what is new. Addresses are in network order, wherever they stand.
func scan(messages []byte, found func(uint32)) {
	for len(messages) >= headerSize {
		size := int(binary.NativeEndian.Uint32(messages))
		kind := binary.NativeEndian.Uint16(messages[4:])
		if size < headerSize || size > len(messages) {
			return
		}
		if kind == newRule || kind == newElement {
			scanBytes(messages[headerSize:size], found)
		}
		messages = messages[min(len(messages), (size+3)&^3):]
	}
}

func scanBytes(bytes []byte, found func(uint32)) {
	for at := 0; at+4 <= len(bytes); at++ {
		if bytes[at] == 10 && bytes[at+1] >= 128 {
			found(binary.BigEndian.Uint32(bytes[at:]))
		}
	}
}
