package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"syscall"
	"time"
)

// What the kernel tells of nf_tables: each transaction, right after it has taken effect. It is told to everybody who listens,
// whichever program wrote it, and nothing has to be listed for it.
type kernel struct {
	socket int
	// Is given messages as they come.
	seen func(messages []byte, at time.Time)
}

const (
	netfilter   = 12
	nftablesBit = 1 << (7 - 1)
	// Above what a user may take; the first transaction of 1,000 Services is large.
	receiveBuffer   = 1 << 30
	receiveBufForce = 33
)

func openKernel(seen func([]byte, time.Time)) (*kernel, error) {
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
		one.seen(buffer[:count], at)
	}
}

// netlink's header, and those of messages: a type and flags, and a sequence and a sender.
const headerSize = 16

// Types of NFNL_SUBSYS_NFTABLES: NEWRULE, DELRULE and NEWSETELEM.
const (
	newRule     = 10<<8 | 6
	deletedRule = 10<<8 | 8
	newElement  = 10<<8 | 12
)

func scan(messages []byte, found func(kind uint16, body []byte)) {
	for len(messages) >= headerSize {
		size := int(binary.NativeEndian.Uint32(messages))
		if size < headerSize || size > len(messages) {
			return
		}
		found(binary.NativeEndian.Uint16(messages[4:]), messages[headerSize:size])
		messages = messages[min(len(messages), (size+3)&^3):]
	}
}

// Finds what can be an endpoint's address in what is new: 10.128.0.0 to 10.255.255.255, in network order, wherever it stands.
func scanAddresses(messages []byte, found func(uint32)) {
	scan(messages, func(kind uint16, body []byte) {
		if kind == newRule || kind == newElement {
			scanBytes(body, found)
		}
	})
}

// Nfnetlink's own header, and NFTA_RULE_CHAIN.
const (
	familySize = 4
	ruleChain  = 2
)

// Finds the chains of rules that come and go.
func scanRules(messages []byte, found func(kind uint16, chain string)) {
	scan(messages, func(kind uint16, body []byte) {
		if kind != newRule && kind != deletedRule {
			return
		}
		for rest := body[min(len(body), familySize):]; len(rest) >= 4; {
			size := int(binary.NativeEndian.Uint16(rest))
			if size < 4 || size > len(rest) {
				return
			}
			if binary.NativeEndian.Uint16(rest[2:]) == ruleChain {
				found(kind, string(bytes.TrimRight(rest[4:size], "\x00")))
			}
			rest = rest[min(len(rest), (size+3)&^3):]
		}
	})
}

func scanBytes(bytes []byte, found func(uint32)) {
	for at := 0; at+4 <= len(bytes); at++ {
		if bytes[at] == 10 && bytes[at+1] >= 128 {
			found(binary.BigEndian.Uint32(bytes[at:]))
		}
	}
}
