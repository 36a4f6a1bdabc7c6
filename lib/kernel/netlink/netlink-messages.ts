/** One netlink message; linux/netlink.h, struct nlmsghdr. */
export interface NetlinkMessage {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** What follows the header. */
  readonly data: Buffer;
}

/** The messages of one datagram, each whole. From a malformed one on, all is left out. */
export function parseMessages(datagram: Buffer): NetlinkMessage[] {
  const messages: NetlinkMessage[] = [];
  for (let at = 0; at + headerBytes <= datagram.length;) {
    const length = datagram.readUInt32LE(at);
    if (length < headerBytes || length > datagram.length - at) break;
    messages.push({
      type: datagram.readUInt16LE(at + 4),
      flags: datagram.readUInt16LE(at + 6),
      sequence: datagram.readUInt32LE(at + 8),
      data: datagram.subarray(at + headerBytes, at + length),
    });
    at += align(length);
  }
  return messages;
}

/** Attribute type to value, of the attributes that start at `offset`, each whole. A malformed rest is left out. */
export function parseAttributes(message: Buffer, offset: number): Map<number, Buffer> {
  const attributes = new Map<number, Buffer>();
  for (let at = offset; at + attributeHeaderBytes <= message.length;) {
    const length = message.readUInt16LE(at);
    if (length < attributeHeaderBytes || length > message.length - at) break;
    const type = message.readUInt16LE(at + 2) & attributeTypeMask;
    attributes.set(type, message.subarray(at + attributeHeaderBytes, at + length));
    at += align(length);
  }
  return attributes;
}

/** One attribute, as it stands in a message: padded to a multiple of four. `isNested` where it is made of others. */
export function renderAttribute(type: number, value: Buffer, isNested = false): Buffer {
  const attribute = Buffer.alloc(align(attributeHeaderBytes + value.length));
  attribute.writeUInt16LE(attributeHeaderBytes + value.length, 0);
  attribute.writeUInt16LE(isNested ? type | NLA_F_NESTED : type, 2);
  value.copy(attribute, attributeHeaderBytes);
  return attribute;
}

const headerBytes = 16;
const attributeHeaderBytes = 4;

/** The two high bits are NLA_F_NESTED and NLA_F_NET_BYTEORDER. */
const NLA_F_NESTED = 0x8000;
const attributeTypeMask = 0x3fff;

/** Messages and attributes start at multiples of four. */
function align(length: number): number {
  return (length + 3) & ~3;
}
