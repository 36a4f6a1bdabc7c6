/** A schema of OpenAPI, as far as it is of use. */
export type Schema = Readonly<Record<string, unknown>>;

/** Text, of 253 characters at most. */
export const text = (more: Schema = {}): Schema => ({ type: 'string', maxLength: 253, ...more });
/** A list of such items. */
export const list = (items: Schema, more: Schema = {}): Schema => ({ type: 'array', items, ...more });
/** An object of such fields. */
export const object = (properties: Schema, more: Schema = {}): Schema => ({
  type: 'object',
  properties,
  ...more,
});
/** A rule in CEL, and what is said where it does not hold. */
export const rule = (rule: string, message: string): Schema => ({ rule, message });

const isRange = `isIP(self) || isCIDR(self) || (self.split('-').size() == 2
  && self.split('-').all(part, isIP(part.trim())))`.replaceAll(/\s+/g, ' ');

/** What is not an address here is judged by the rule above. */
const hasOneFamily = `!(self.split('-').size() == 2 && self.split('-').all(part, isIP(part.trim())))
  || ip(self.split('-')[0].trim()).family() == ip(self.split('-')[1].trim()).family()`.replaceAll(
  /\s+/g,
  ' ',
);

const isSmall = '!isCIDR(self) || cidr(self).prefixLength() >= (cidr(self).ip().family() == 4 ? 8 : 48)';

/** Addresses of a pool. */
export const range = text({
  maxLength: 100,
  'x-kubernetes-validations': [
    rule(isRange, 'must be an address, FIRST-LAST, or a CIDR'),
    rule(hasOneFamily, 'both addresses must be of one family'),
    rule('!isCIDR(self) || cidr(self).masked() == cidr(self)', 'a CIDR must have no bits of a host'),
    rule(isSmall, 'a CIDR must be a /8 or smaller, for IPv6 a /48'),
  ],
});

/** A duration as Go writes it, in whole milliseconds. */
export const duration = (more: Schema): Schema => {
  return text({ maxLength: 30, pattern: String.raw`^(\d+ms|\d+(\.\d+)?(s|m|h))+$`, ...more });
};

/** Of the time between two adverts. */
export const isAdvert = rule(
  "duration(self) >= duration('100ms') && duration(self) <= duration('10s')",
  'must be from 100ms to 10s',
);

/** A label selector. */
export const selector = (description: string): Schema => {
  const labels = object({}, { additionalProperties: text({ maxLength: 63 }) });
  const expression = object(
    {
      key: text({ maxLength: 317 }),
      operator: text({ enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'] }),
      values: list(text({ maxLength: 63 })),
    },
    { required: ['key', 'operator'] },
  );
  return object(
    {
      matchLabels: { type: 'object', additionalProperties: labels['additionalProperties'] },
      matchExpressions: list(expression),
    },
    { description },
  );
};
