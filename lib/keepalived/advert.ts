import { type Family, parseAddress } from '../address/address.ts';

/** One VRRP advertisement, of version 2 (RFC 3768) or 3 (RFC 9568). */
export interface VrrpAdvert {
  readonly family: Family;
  /** The sender's address, in canonical text. */
  readonly source: string;
  readonly vrid: number;
  /** 0 when the sender gives up its addresses, 255 when they are its own. */
  readonly priority: number;
  /** The virtual addresses in canonical text, in the order of the packet. */
  readonly addresses: readonly string[];
}

/** The adverts in what `tcpdump -x` printed, in their order. Packets that are none are left out. Pure and total. */
export function parseCapture(text: string): VrrpAdvert[] {
  const packets: string[] = [];
  for (const line of text.split('\n')) {
    // tcpdump 4.99.3: `	0x0010:  e000 0012 2133 6401 0101 …`; what is no such line begins a packet.
    const bytes = /^\s+0x[0-9a-f]{4}: {2}([0-9a-f ]+)$/.exec(line)?.[1];
    if (bytes === undefined) packets.push('');
    else packets.push(`${packets.pop() ?? ''}${bytes.replaceAll(' ', '')}`);
  }
  return packets.map((packet) => parsePacket(Buffer.from(packet, 'hex'))).filter((advert) => advert !== null);
}

const vrrpProtocol = 112;
const vrrpHeaderBytes = 8;

interface Layout {
  readonly family: Family;
  readonly source: Buffer;
  /** From the VRRP header on. */
  readonly payload: Buffer;
  readonly addressBytes: number;
}

function parsePacket(packet: Buffer): VrrpAdvert | null {
  const layout = readIpHeader(packet);
  if (layout === null || layout.payload.length < vrrpHeaderBytes) return null;
  const { family, source, payload, addressBytes } = layout;
  const [head = 0, vrid = 0, priority = 0, count = 0] = payload;
  const isAdvert = head === 0x21 || head === 0x31;
  if (!isAdvert || payload.length < vrrpHeaderBytes + count * addressBytes) return null;
  const addresses = Array.from({ length: count }, (_, index) => {
    const start = vrrpHeaderBytes + index * addressBytes;
    return toText(payload.subarray(start, start + addressBytes));
  });
  return { family, source: toText(source), vrid, priority, addresses };
}

function readIpHeader(packet: Buffer): Layout | null {
  const version = (packet[0] ?? 0) >> 4;
  if (version === 4 && packet[9] === vrrpProtocol) {
    const headerBytes = ((packet[0] ?? 0) & 0x0f) * 4;
    return {
      family: 'ipv4',
      source: packet.subarray(12, 16),
      payload: packet.subarray(headerBytes),
      addressBytes: 4,
    };
  }
  if (version !== 6 || packet[6] !== vrrpProtocol) return null;
  return { family: 'ipv6', source: packet.subarray(8, 24), payload: packet.subarray(40), addressBytes: 16 };
}

function toText(bytes: Buffer): string {
  const text = bytes.length === 4 ? bytes.join('.') : (bytes.toString('hex').match(/.{4}/g)?.join(':') ?? '');
  return parseAddress(text)?.text ?? text;
}
