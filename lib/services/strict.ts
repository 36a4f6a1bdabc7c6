/** What the definitions ask of a field beyond what is read of it. */
import * as z from 'zod/mini';

/** Of a schema, as OpenAPI v3 says it: a description, bounds, rules. It replaces what `definitions.ts` prints for the schema. */
export type Strictness = Readonly<Record<string, unknown>>;

/**
 * Schemas to what the API asks of them. Reading asks for none of it: an object that a later version wrote must not fail, so that a
 * rollback works.
 */
export const strict = z.registry<Strictness>();

/** A rule of CEL, and what is said where it is broken. */
export const rule = (rule: string, message: string): Strictness => ({ rule, message });

const isRange = `isIP(self) || isCIDR(self) || (self.split('-').size() == 2
  && self.split('-').all(part, isIP(part.trim())))`.replaceAll(/\s+/g, ' ');

/** What is not an address here is judged by the rule above. */
const hasOneFamily = `!(self.split('-').size() == 2 && self.split('-').all(part, isIP(part.trim())))
  || ip(self.split('-')[0].trim()).family() == ip(self.split('-')[1].trim()).family()`.replaceAll(
  /\s+/g,
  ' ',
);

const isSmall = '!isCIDR(self) || cidr(self).prefixLength() >= (cidr(self).ip().family() == 4 ? 8 : 48)';

/** Kubernetes 1.31 takes `==` of two such values for endlessly dear, and refuses the definition. */
const hasNoHostBits = '!isCIDR(self) || cidr(self).masked() in [cidr(self)]';

/** What `judge-pools.ts` refuses, too. An expression has no IPv4 address in the form of IPv6. */
const foreignBlocks = `['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3', '::/127', 'fe80::/10', 'ff00::/8']`;

const first = "self.split('-')[0].trim()";
const second = "self.split('-')[1].trim()";
const last = "self.split('-')[self.split('-').size() - 1].trim()";

const isUnicast = `${foreignBlocks}.all(block, isCIDR(self)
  ? !cidr(block).containsIP(cidr(self).ip()) && !cidr(self).containsCIDR(block)
  : (!isIP(${first}) || !cidr(block).containsIP(${first})) && (!isIP(${last}) || !cidr(block).containsIP(${last})))`.replaceAll(
  /\s+/g,
  ' ',
);

/** `/0 /1`, `/1 /2` and so on; from `/32 /33 v6` on, these are of IPv6 alone. */
const lengths = Array.from(
  { length: 128 },
  (_, bits) => `'/${bits} /${bits + 1}${bits < 32 ? '' : ' v6'}'`,
).join();
const [shorter, longer] = ["bits.split(' ')[0]", "bits.split(' ')[1]"];

/**
 * Expressions cannot compare addresses. So: both are equal, or they have some bits in common, and the next one is 0 in the first and 1 in the last.
 * Lists of one name a value, which would cost more if it was repeated. Kubernetes 1.31.14 and 1.36.3 estimate the cost of one range as 107,468. 64 of
 * them may cost 10,000,000.
 */
const isInOrderOfBits =
  `self.split('-').size() != 2 || !isIP(${first}) || !isIP(${second}) || ip(${first}) in [ip(${second})]
  || ip(${first}).family() != ip(${second}).family()
  || [${first}].exists(one, [${second}].exists(other, [${lengths}].exists(bits, (one.contains(':') || !bits.endsWith('v6'))
    && !cidr(one + ${longer}).containsIP(other) && cidr(one + ${longer}).containsIP(cidr(other + ${shorter}).masked().ip()))))`.replaceAll(
    /\s+/g,
    ' ',
  );

/** Addresses, as people write them. */
export const range = z.string().register(strict, {
  maxLength: 100,
  'x-kubernetes-validations': [
    rule(isRange, 'must be an address, FIRST-LAST, or a CIDR'),
    rule(hasOneFamily, 'both addresses must be of one family'),
    rule(hasNoHostBits, 'a CIDR must have no bits of a host'),
    rule(isSmall, 'a CIDR must be a /8 or smaller, for IPv6 a /48'),
    rule(isUnicast, 'no host can have loopback, link-local, multicast or unspecified addresses'),
    rule(isInOrderOfBits, 'the first address must not be greater than the last'),
  ],
});

/** No part of a millisecond: `go-duration.ts` takes all of these. */
const durationPattern = String.raw`^(\d{1,9}ms|\d{1,9}(\.\d{1,3})?s|\d{1,9}(\.\d{1,4})?m|\d{1,9}(\.\d{1,5})?h)+$`;

/** A duration as Go writes it, in whole milliseconds. */
export const duration = z.string().register(strict, { maxLength: 30, pattern: durationPattern });

/** Of the time between two adverts. */
export const isAdvert = rule(
  "duration(self) >= duration('100ms') && duration(self) <= duration('10s')",
  'must be from 100ms to 10s',
);

/** A number from 1 to 255. */
const vrid = String.raw`(25[0-5]|2[0-4]\d|1\d\d|[1-9]\d?)`;

/** Virtual_router_ids: `FIRST-LAST`, or one number. */
export const vridsPattern = `^${vrid}(-${vrid})?$`;

/** Of virtual_router_ids. */
export const isInOrder = rule(
  "self.split('-').size() == 1 || int(self.split('-')[0]) <= int(self.split('-')[1])",
  'the first number must not be greater than the last',
);
