/** What the schemas of vipnat's definitions are made of. */

/** A schema as OpenAPI v3 has it. */
export type Schema = Readonly<Record<string, unknown>>;

/** A string, short unless more is said. */
export const text = (more: Schema = {}): Schema => ({ type: 'string', maxLength: 253, ...more });

/** An array. */
export const list = (items: Schema, more: Schema = {}): Schema => ({ type: 'array', items, ...more });

/** An object with these properties. */
export const object = (properties: Schema, more: Schema = {}): Schema => ({
  type: 'object',
  properties,
  ...more,
});

/** A rule of CEL, and what is said where it is broken. */
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

/** Addresses, as people write them. */
export const range = text({
  maxLength: 100,
  'x-kubernetes-validations': [
    rule(isRange, 'must be an address, FIRST-LAST, or a CIDR'),
    rule(hasOneFamily, 'both addresses must be of one family'),
    rule('!isCIDR(self) || cidr(self).masked() == cidr(self)', 'a CIDR must have no bits of a host'),
    rule(isSmall, 'a CIDR must be a /8 or smaller, for IPv6 a /48'),
  ],
});

/** No part of a millisecond: `go-duration.ts` takes all of these. */
const durationPattern = String.raw`^(\d{1,9}ms|\d{1,9}(\.\d{1,3})?s|\d{1,9}(\.\d{1,4})?m|\d{1,9}(\.\d{1,5})?h)+$`;

/** A duration as Go writes it, in whole milliseconds. */
export const duration = (more: Schema): Schema => text({ maxLength: 30, pattern: durationPattern, ...more });

/** Of the time between two adverts. */
export const isAdvert = rule(
  "duration(self) >= duration('100ms') && duration(self) <= duration('10s')",
  'must be from 100ms to 10s',
);

/** A number from 1 to 255, as a regular expression. */
export const vrid = String.raw`(25[0-5]|2[0-4]\d|1\d\d|[1-9]\d?)`;

/** Of `FIRST-LAST`, or of one number. */
export const isInOrder = rule(
  "self.split('-').size() == 1 || int(self.split('-')[0]) <= int(self.split('-')[1])",
  'the first number must not be greater than the last',
);

/** What an expression of a selector takes: `label-selector.ts` refuses others. */
const withValues = {
  properties: { operator: { enum: ['In', 'NotIn'] }, values: { minItems: 1 } },
  required: ['values'],
};
const withoutValues = {
  properties: { operator: { enum: ['Exists', 'DoesNotExist'] }, values: { maxItems: 0 } },
};

/** A LabelSelector of meta/v1. */
export const selector = (description: string): Schema => {
  const labels = object({}, { additionalProperties: text({ maxLength: 63 }) });
  const expression = object(
    {
      key: text({ maxLength: 317 }),
      operator: text({ enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'] }),
      values: list(text({ maxLength: 63 })),
    },
    { required: ['key', 'operator'], anyOf: [withValues, withoutValues] },
  );
  return object(
    {
      matchLabels: { type: 'object', additionalProperties: labels['additionalProperties'] },
      matchExpressions: list(expression),
    },
    { description },
  );
};

/** Conditions of meta/v1, one of each type. */
export const conditions = (description: string): Schema =>
  list(
    object(
      {
        type: text({ maxLength: 316 }),
        status: text({ enum: ['True', 'False', 'Unknown'] }),
        reason: text({ maxLength: 1024 }),
        message: text({ maxLength: 32_768 }),
        lastTransitionTime: text({ format: 'date-time' }),
        observedGeneration: { type: 'integer', format: 'int64' },
      },
      { required: ['type', 'status'] },
    ),
    { description, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] },
  );
