package main

import (
	"encoding/binary"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// One end of a cable, by whole frames: ARP, and UDP over IPv4.
type wire struct {
	socket   int
	hardware net.HardwareAddr
	own      [4]byte
	port     uint16
	link     syscall.SockaddrLinklayer
	earliest atomic.Int64
}

// Somebody says where an address is, asked or not.
type arrival struct {
	address  [4]byte
	hardware net.HardwareAddr
}

// An address has answered.
type reply struct {
	address  [4]byte
	number   uint32
	sent, at time.Time
}

const (
	typeARP, typeIPv4 = 0x0806, 0x0800
	// Ethernet, IPv4 without options, UDP.
	ethernetSize, ipv4Size, udpSize = 14, 20, 8
	payloadSize                     = 12
	clientPort                      = 40000
	maxFrame                        = 2048
	queueSize                       = 64 << 20
)

func openWire(name string, own net.IP, port uint16) (*wire, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	all := uint16(syscall.ETH_P_ALL)
	protocol := all<<8 | all>>8
	socket, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, int(protocol))
	if err != nil {
		return nil, err
	}
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, receiveBufForce, queueSize); err != nil {
		return nil, err
	}
	link := syscall.SockaddrLinklayer{Protocol: protocol, Ifindex: device.Index}
	if err := syscall.Bind(socket, &link); err != nil {
		return nil, err
	}
	return &wire{
		socket: socket, hardware: device.HardwareAddr, own: [4]byte(own.To4()), port: port, link: link,
	}, nil
}

// Answers to requests that were sent before are passed over.
func (one *wire) notBefore(begun time.Time) { one.earliest.Store(begun.UnixNano()) }

func (one *wire) whoHas(address [4]byte) error {
	broadcast := net.HardwareAddr{255, 255, 255, 255, 255, 255}
	return one.send(one.arp(1, broadcast, make(net.HardwareAddr, 6), address))
}

func (one *wire) request(address [4]byte, neighbour net.HardwareAddr, number uint32, at time.Time) error {
	frame := make([]byte, 0, ethernetSize+ipv4Size+udpSize+payloadSize)
	frame = append(append(frame, neighbour...), one.hardware...)
	frame = binary.BigEndian.AppendUint16(frame, typeIPv4)
	header := len(frame)
	frame = append(frame, 0x45, 0)
	frame = binary.BigEndian.AppendUint16(frame, ipv4Size+udpSize+payloadSize)
	frame = append(frame, 0, 0, 0x40, 0, 64, syscall.IPPROTO_UDP, 0, 0)
	frame = append(append(frame, one.own[:]...), address[:]...)
	binary.BigEndian.PutUint16(frame[header+10:], checksum(frame[header:]))
	frame = binary.BigEndian.AppendUint16(frame, clientPort)
	frame = binary.BigEndian.AppendUint16(frame, one.port)
	frame = binary.BigEndian.AppendUint16(frame, udpSize+payloadSize)
	// IPv4 has no checksum of UDP where it is 0 (RFC 768).
	frame = append(frame, 0, 0)
	frame = binary.BigEndian.AppendUint32(frame, number)
	frame = binary.BigEndian.AppendUint64(frame, uint64(at.UnixNano()))
	return one.send(frame)
}

func (one *wire) send(frame []byte) error {
	err := syscall.Sendto(one.socket, frame, 0, &one.link)
	if err == syscall.ENOBUFS || err == syscall.EINTR {
		return nil
	}
	return err
}

func (one *wire) arp(operation uint16, to, target net.HardwareAddr, address [4]byte) []byte {
	frame := append(append([]byte{}, to...), one.hardware...)
	frame = binary.BigEndian.AppendUint16(frame, typeARP)
	frame = append(frame, 0, 1, 8, 0, 6, 4)
	frame = binary.BigEndian.AppendUint16(frame, operation)
	frame = append(append(frame, one.hardware...), one.own[:]...)
	return append(append(frame, target...), address[:]...)
}

// Reads until it fails. Whoever asks for this client is told where it is.
func (one *wire) receive(arrived func(arrival), answered func(reply)) error {
	frame := make([]byte, maxFrame)
	for {
		count, from, err := syscall.Recvfrom(one.socket, frame, 0)
		if err == syscall.EINTR || err == syscall.ENETDOWN {
			continue
		}
		if err != nil {
			return err
		}
		link, isLink := from.(*syscall.SockaddrLinklayer)
		if count < ethernetSize || (isLink && link.Pkttype == syscall.PACKET_OUTGOING) {
			continue
		}
		switch binary.BigEndian.Uint16(frame[12:]) {
		case typeARP:
			if err := one.takeARP(frame[ethernetSize:count], arrived); err != nil {
				return err
			}
		case typeIPv4:
			one.takeIPv4(frame[ethernetSize:count], answered)
		}
	}
}

func (one *wire) takeARP(packet []byte, arrived func(arrival)) error {
	if len(packet) < 28 {
		return nil
	}
	hardware := append(net.HardwareAddr{}, packet[8:14]...)
	sender, wanted := [4]byte(packet[14:18]), [4]byte(packet[24:28])
	arrived(arrival{sender, hardware})
	if binary.BigEndian.Uint16(packet[6:]) != 1 || wanted != one.own {
		return nil
	}
	return one.send(one.arp(2, hardware, hardware, sender))
}

func (one *wire) takeIPv4(packet []byte, answered func(reply)) {
	const size = ipv4Size + udpSize + payloadSize
	if len(packet) < size || packet[0] != 0x45 || packet[9] != syscall.IPPROTO_UDP || [4]byte(packet[16:20]) != one.own {
		return
	}
	payload := packet[ipv4Size+udpSize:]
	sent := int64(binary.BigEndian.Uint64(payload[4:]))
	if sent < one.earliest.Load() {
		return
	}
	number := binary.BigEndian.Uint32(payload)
	answered(reply{[4]byte(packet[12:16]), number, time.Unix(0, sent), time.Now()})
}

func checksum(header []byte) uint16 {
	var sum uint32
	for at := 0; at+1 < len(header); at += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[at:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func splitLines(text string) []string {
	return strings.Fields(text)
}
