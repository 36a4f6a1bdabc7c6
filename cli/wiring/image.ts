/** Set by scripts/build, from scripts/image-name. */
declare const VIPNAT_IMAGE: string | undefined;

/** The image of this build, with its registry and tag; where no build was made, the newest that was built on this machine. */
export const ownImage = typeof VIPNAT_IMAGE === 'undefined' ? 'localhost/vipnat:latest' : VIPNAT_IMAGE;
